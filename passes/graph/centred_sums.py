"""Finds sums of (x - mean)², of which a variance is made."""

from __future__ import annotations

import math

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Extent
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.match import number, unreshaped
from cuesta.sizes import Number, parse

_SUM = reduction.OPS["sum"]
_SUB, _DIV, _SQUARE = (pointwise.OPS[name] for name in ("sub", "div", "square"))


def is_centred(op: ir.Operation) -> bool:
    """Whether `op` is the sum of (x - mean)², with the mean of x over the same dims."""
    square = maker(op.operands[0], _SQUARE) if _SUM.matches(op) else None
    if square is None or maker(square.operands[0], _SUB) is None:
        return False
    x, mean = less_mean(op)
    dims = Reduced.dims.of(op)
    divided = maker(unreshaped(mean), _DIV)
    if divided is None or _count(divided.operands[1]) != math.prod(shape_of(x)[d] for d in dims):
        return False
    total = maker(unreshaped(divided.operands[0]), _SUM)
    return total is not None and total.operands[0] == x and Reduced.dims.of(total) == dims


def _count(value: ir.Value) -> Number | float | None:
    """The number, maybe symbolic, that every element of `value` is; None where there is no such number."""
    extent = maker(value, Extent)
    return number(value) if extent is None else parse(Extent.at.of(extent))


def less_mean(op: ir.Operation) -> tuple[ir.Value, ir.Value]:
    """(x, mean) of a sum of (x - mean)²."""
    x, mean = op.operands[0].owner.operands[0].owner.operands
    return x, mean
