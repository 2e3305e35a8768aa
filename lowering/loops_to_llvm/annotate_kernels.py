"""Tells LLVM by attributes how to compile kernels' functions: with the widest vectors, and without inlining.

llvm.func @k__tiles(…)   →   llvm.func @k__tiles(…) attributes {passthrough = ["noinline", …]}
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.kernel_module import ALIGNED, REST, TAIL, TILES, kernel_modules
from cuesta.dialects.upstream_fields import PASSTHROUGH, SYM_NAME
from cuesta.lowering.loops_to_llvm.loop_marks import move_annotation
from cuesta.passes.infra.registry import Pass, register_pass

#: noinline: the JIT wraps every function, and each wrapper would compile the loops again. no-builtin-memcpy: vectors
#: copy the rows of an embedding (1 KB) in 0.88 of memcpy's time (an EPYC of Zen 4, a Xeon).
_ASKED = '["noinline", "no-builtin-memcpy", ["prefer-vector-width", "512"]]'


@register_pass("annotate-kernels")
class AnnotateKernels(Pass):
    """Asks LLVM for the widest vectors in kernels' loops, and keeps their functions from being inlined."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for op in nested.body.operations:
                    operation = op.operation
                    if operation.name == "llvm.func" and len(operation.regions[0].blocks):
                        _mark(operation)


def _mark(function: ir.Operation) -> None:
    if SYM_NAME.of(function).endswith((TILES, ALIGNED, REST, TAIL)):
        PASSTHROUGH.put(function, ir.Attribute.parse(_ASKED))
        for block in function.regions[0].blocks:
            move_annotation(block.operations[len(block.operations) - 1].operation)
