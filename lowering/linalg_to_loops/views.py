"""What memory a buffer is, through views of views."""

from __future__ import annotations

from cuesta._mlir import ir

#: What only says where in a buffer something lies.
VIEWS = ("memref.subview", "memref.reinterpret_cast", "memref.cast")


def memory_of(value: ir.Value) -> ir.Value:
    """The buffer that a view is of: an argument, of which no two overlap, or memory of the kernel's own."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value
