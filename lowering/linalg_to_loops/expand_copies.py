"""Rewrites copies of buffers as linalg ops, which become loops. Upstream calls a run-time library for strided copies.

memref.copy %a, %b : memref<4x8xf32, strided<[16, 1]>> to …   →   linalg.copy ins(%a) outs(%b)
"""

from __future__ import annotations

from cuesta._mlir import ir, memref
from cuesta.dialects import walk
from cuesta.dialects.named_linalg import copy
from cuesta.passes.infra.registry import Pass, register_pass


@register_pass("expand-copies")
class ExpandCopies(Pass):
    """Rewrites copies of buffers as linalg ops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for op in [op for op in walk(module.operation) if op.name == memref.CopyOp.OPERATION_NAME]:
                with ir.InsertionPoint(op), op.location:
                    copy(op.operands[0], op.operands[1])
                op.erase()
