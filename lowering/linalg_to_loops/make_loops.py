"""Lowers linalg ops on buffers to loops: affine loops, or scf loops in kernels whose tiles differ in size.

linalg.generic ins(%x : memref<64xf32>)    →   affine.for %i = 0 to 64
linalg.generic ins(%x : memref<?xf32>)     →   scf.for %i = %c0 to %n

Accesses in affine loops stay readable. But the size of a partial tile is computed within a loop, and no such value can
bound an affine loop.
"""

from __future__ import annotations

from cuesta._mlir import PassManager, func, ir
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.lowering.linalg_to_loops.full_tiles import is_cut
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("make-loops")
class MakeLoops(Pass):
    """Lowers kernels' linalg ops to loops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            to_affine, to_scf = (
                PassManager.parse(f"func.func(convert-linalg-to-{kind}loops)") for kind in ("affine-", "")
            )
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        (to_scf if is_cut(function) else to_affine).run(function.operation)
