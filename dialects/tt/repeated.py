"""Looks through tt.broadcast, which repeats a block along dims of size 1: its elements are those of its operand."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.tt.ops import Broadcast
from cuesta.dialects.upstream_fields import splat_of


def unrepeated(x: ir.Value) -> ir.Value:
    """The block that is repeated to `x`; `x` itself where none is."""
    while not isinstance(x.owner, ir.Block) and Broadcast.matches(x.owner):
        x = x.owner.operands[0]
    return x


def number_of(x: ir.Value) -> int | float | None:
    """The number that all elements of a block are; None for a block that is not made of a constant."""
    return splat_of(unrepeated(x))
