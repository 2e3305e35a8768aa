"""Looks through tt.broadcast, which repeats a block along dims of size 1: its elements are those of its operand."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.tt.ops import Broadcast
from cuesta.dialects.upstream_fields import splat_of

#: The least number that `reciprocal_of` takes.
_LEAST = 2.0**-100


def unrepeated(x: ir.Value) -> ir.Value:
    """The block that is repeated to `x`; `x` itself where none is."""
    while not isinstance(x.owner, ir.Block) and Broadcast.matches(x.owner):
        x = x.owner.operands[0]
    return x


def number_of(x: ir.Value) -> int | float | None:
    """The number that all elements of a block are; None for a block that is not made of a constant."""
    return splat_of(unrepeated(x))


def reciprocal_of(x: ir.Value) -> float | None:
    """One over the number that all elements of a block are; None where there is none, or either may be a denormal."""
    number = number_of(x)
    return 1 / number if number is not None and _LEAST <= abs(number) <= 1 / _LEAST else None
