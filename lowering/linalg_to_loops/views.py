"""Finds the memory of a buffer through views of views."""

from __future__ import annotations

from cuesta._mlir import ir, memref

#: Ops that make a view of a buffer.
VIEWS = tuple(op.OPERATION_NAME for op in (memref.SubViewOp, memref.ReinterpretCastOp, memref.CastOp))


def memory_of(value: ir.Value) -> ir.Value:
    """The buffer that a view refers to: an argument (no two arguments overlap), or the kernel's own scratch memory."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value
