"""Lowers kernels again with smaller blocks for a target on which the chosen blocks do not fit."""

from __future__ import annotations

from collections.abc import Collection

from cuesta._mlir import ir
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.top_module import target_of
from cuesta.lowering.tt_to_binary.making import Smaller
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.pipeline import Pipeline
from cuesta.passes.pipelines import stages_for


def smaller_blocks(module: ir.Module) -> Smaller:
    """Returns a function that lowers kernels of `module` with smaller blocks. `module` is at the blocks level now, and
    may be lowered further meanwhile."""
    kept = module.operation.clone()
    lower = stages_for(target_of(module))["tt"].pipeline

    def make(names: Collection[str], halvings: int) -> ir.Module:
        again = ir.Module.parse(kept.get_asm(), kept.context)
        for nested in kernel_modules(again):
            for function in functions(nested):
                if function.name.value not in names:
                    function.operation.erase()
        Pipeline.parse(f"builtin.module(halve-blocks{{times={halvings}}})").run(again, verify=False)
        Pipeline.parse(lower).run(again, verify=False)
        return again

    return make
