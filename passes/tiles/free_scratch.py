"""Frees the memory that a kernel allocates for itself: tiles of symbolic size, which cannot be on the stack.

%a = memref.alloc(%n) : memref<?xf32>        %a = memref.alloc(%n) : memref<?xf32>
…                                        →   …
return                                       memref.dealloc %a
                                             return
"""

from __future__ import annotations

from cuesta._mlir import ir, memref
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("free-scratch")
class FreeScratch(Pass):
    """Frees a kernel's own allocations at the end of the block that contains them."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in functions(nested):
                    _free(function.operation)


def _free(op: ir.Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            for inner in list(block.operations):
                if isinstance(inner, memref.AllocOp):
                    end = block.operations[len(block.operations) - 1]
                    with ir.InsertionPoint(end), inner.operation.location:
                        memref.DeallocOp(inner.operation.results[0])
                else:
                    _free(inner.operation)
