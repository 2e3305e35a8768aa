"""Moves a kernel's largest buffers off the stack until the rest fits there: a thread's stack may have 2 MiB.

%a = memref.alloca() : memref<4x24x24x64xf32>        %a = memref.alloc() : memref<4x24x24x64xf32>
%b = memref.alloca() : memref<64xf32>            →   %b = memref.alloca() : memref<64xf32>
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

from cuesta._mlir import func, ir, memref
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.plan_memory.lifetimes import byte_count
from cuesta.sizes import hint


@register_pass("limit-stack")
@dataclass(frozen=True)
class LimitStack(Pass):
    """Leaves each kernel at most `bytes` of buffers on the stack; the smallest stay."""

    bytes: int = 1 << 20

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in functions(nested):
                    self._limit(function)

    def _limit(self, function: func.FuncOp) -> None:
        found = [op for op in walk(function.operation) if op.name == memref.AllocaOp.OPERATION_NAME]
        buffers = sorted(((hint(byte_count(op.results[0].type)), op) for op in found), key=itemgetter(0))
        left = self.bytes
        for size, op in buffers:
            left -= size
            if left < 0:
                with ir.InsertionPoint(op), op.location:
                    made = memref.AllocOp(op.results[0].type, [], [], alignment=op.opview.alignment)
                op.results[0].replace_all_uses_with(made.operation.results[0])
                op.erase()
