"""linalg → Triton IR: each kernel becomes a function; each of its programs computes one block.

    func.func @exp(%x: tensor<4096xf32>, %y: …)       tt.func @exp(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
      cuesta.blocks = [1024]                            %p = tt.get_program_id x
      %0 = linalg.generic ins(%x) outs(%y)        →     %i = %p * 1024 + tt.make_range 0..1024
             { math.exp }                               %v = tt.load (%x + %i)
                                                        tt.store (%y + %i), math.exp %v

Each class of loops is an axis of the block; a value that lacks a class has size 1 along that axis. If the block does
not divide the size of a class, loads, stores and reductions mask the positions beyond its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects.kernel_fields import BLOCKS
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.lowering.linalg_to_tt.lower import lower_kernel
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("linalg-to-tt")
@dataclass(frozen=True)
class LinalgToTT(Pass):
    """Lowers the kernels whose blocks are chosen to the tt level."""

    #: The library that mathematical functions are called from: "nv" (libdevice) or "ocml".
    library: str = "nv"

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for op in list(nested.body.operations):
                    if isinstance(op, func.FuncOp) and BLOCKS.is_on(op):
                        lower_kernel(op, self.library)
