"""Lowers kernels again with smaller blocks for a target on which the chosen blocks do not fit."""

from __future__ import annotations

from collections.abc import Collection

from cuesta._mlir import ir
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.dialects.upstream_fields import SYM_NAME
from cuesta.lowering.tt_to_binary.making import Smaller
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.pipelines import stages_for


def _keep(module: ir.Module, names: Collection[str]) -> None:
    """Erases the kernels of other names."""
    for nested in kernel_modules(module):
        for view in list(nested.body.operations):
            if SYM_NAME.of(view.operation) not in names:
                view.operation.erase()


def smaller_blocks(module: ir.Module) -> Smaller:
    """Returns a function that lowers kernels of `module` with smaller blocks. `module` is at the blocks level now, and
    may be lowered further meanwhile."""
    kept = module.operation.clone()
    lower = stages_for(target_of(module))["tt"].pipeline

    def make(names: Collection[str], halvings: int) -> ir.Module:
        again = ir.Module.parse(kept.get_asm(), kept.context)
        known = {function.name.value for nested in kernel_modules(again) for function in functions(nested)}
        if known.issuperset(names):
            _keep(again, names)
        # Else some were joined of several, and join-launches finds those among all kernels.
        Pipeline.parse(f"builtin.module(halve-blocks{{times={halvings}}})").run(again, verify=False)
        Pipeline.parse(lower).run(again, verify=False)
        _keep(again, names)
        return again

    return make
