"""Orders that the numbers decide. In a short row each element counts those that come before it, and is written where
that says; the largest so far is a running reduction, and so is where it was found.

Of equal numbers a stable order names the first one first. Where none was asked for, eager names any (its sorts differ
from machine to machine): then positions are ATen's, and what nobody asks the position of is sorted here.
"""

from __future__ import annotations

import math
import operator
from typing import Any, TypeAlias

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.aten.reduction import declines_along_rows
from cuesta.frontend.aten.scatter import write_at
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Size

Value: TypeAlias = ir.Value

#: Elements of a row beyond which it is ATen's to sort: each is compared with all others. Measured: rows of 8 to 64 took
#: 0.2 to 0.9 of its time, of 128 up to 12 times as much.
_MOST_COMPARED = 64


def _isnan(b: GraphBuilder, x: Value) -> Value | None:
    """Whether each element is NaN; None of a type that has none."""
    return b.pointwise("isnan", x) if types.is_float(spelling_of(x)) else None


def _comes_before(b: GraphBuilder, x: Value, y: Value, descending: bool) -> Value:
    """Whether x has to come before y; NaN is larger than all else."""
    less = b.pointwise("gt" if descending else "lt", x, y)
    larger, smaller = (x, y) if descending else (y, x)
    nan, number = _isnan(b, larger), _isnan(b, smaller)
    if nan is None or number is None:
        return less
    return b.pointwise("logical_or", less, b.pointwise("gt", nan, number))


def _ranks(b: GraphBuilder, x: Value, dim: int, descending: bool) -> Value:
    """Where in its row along `dim` each element stands once the row is sorted, as i32s; equal ones keep their order."""
    sizes = shape_of(x)
    count = sizes[dim]
    if isinstance(count, Size) or count > _MOST_COMPARED:
        raise Decline(f"a row of more than {_MOST_COMPARED} elements: ATen sorts")
    row, column = ([*sizes[:dim], *pair, *sizes[dim + 1 :]] for pair in ((1, count), (count, 1)))
    other, own = b.reshape(x, row), b.reshape(x, column)
    square = [*sizes[:dim], count, count, *sizes[dim + 1 :]]
    first = b.pointwise("lt", b.along(square, dim + 1), b.along(square, dim))
    stays = b.pointwise("logical_not", _comes_before(b, own, other, descending))
    before = b.where(first, stays, _comes_before(b, other, own, descending))
    return b.reduce("sum", b.convert(b.expand(before, square), "i32"), [dim + 1])


def _sorted(b: GraphBuilder, values: Value, ranks: Value, dim: int) -> Value:
    """`values` of the ranks' shape, each where its rank along `dim` says."""
    walks = [-1 if d == dim else d for d in range(len(shape_of(values)))]
    zeros = b.constant(0, spelling_of(values), shape_of(values))
    return write_at(b, zeros, values, [ranks], walks, "set", "in_range")


def _only_values(node: torch.fx.Node) -> None:
    if any(user.target is not operator.getitem or user.args[1] != 0 for user in node.users):
        raise Decline("which of equal numbers it names is ATen's own")


@imports("sort.default", "sort.stable")
def sort(
    b: GraphBuilder, node: torch.fx.Node, x: Value, *args: Any, stable: bool | None = None, **named: Any
) -> list[Value | None]:
    """(the elements in order, where each was)."""
    if not stable:
        _only_values(node)
    dim, descending = (*args, *(named.get(n, d) for n, d in (("dim", -1), ("descending", False))[len(args) :]))
    sizes = shape_of(x)
    if not sizes:
        return [x, b.constant(0, "i64")]
    dim %= len(sizes)
    ranks = _ranks(b, x, dim, descending)
    places = _sorted(b, b.expand(b.along(sizes, dim), sizes), ranks, dim) if stable else None
    return [_sorted(b, x, ranks, dim), places]


@imports("topk")
def topk(
    b: GraphBuilder,
    node: torch.fx.Node,
    x: Value,
    count: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> list[Value | None]:
    _only_values(node)
    if not shape_of(x):
        return [x, None]
    dim %= len(shape_of(x))
    return [b.slice(_sorted(b, x, _ranks(b, x, dim, largest), dim), dim, 0, count), None]


@imports("median.default", "nanmedian.default")
def median(b: GraphBuilder, node: torch.fx.Node, x: Value) -> Value:
    """The lower of the two in the middle: the one element with that rank."""
    flat = b.reshape(x, [math.prod(shape_of(x))])
    count, ranks, nan = shape_of(flat)[0], _ranks(b, flat, 0, descending=False), _isnan(b, flat)
    lowest = b.constant(reduction.BY_NAME["amax"].identity(types.element(spelling_of(x))), spelling_of(x))
    middle = b.constant((count - 1) // 2, "i32")
    if nan is not None and "nanmedian" in str(node.target):
        numbers = b.reduce("sum", b.convert(b.pointwise("logical_not", nan), "i32"), [0])
        last = b.with_number("maximum", b.with_number("sub", numbers, 1), 0)
        middle = b.with_number("floor_divide", last, 2)
    found = b.reduce("amax", b.where(b.pointwise("eq", ranks, middle), flat, lowest), [0])
    if nan is not None and "nanmedian" not in str(node.target):
        found = b.where(b.reduce("any", nan, [0]), b.constant(math.nan, spelling_of(x)), found)
    return found


@imports("cummax", "cummin")
def running_extreme(b: GraphBuilder, node: torch.fx.Node, x: Value, dim: int) -> list[Value]:
    """(the extreme so far, the position of the last element that is equal to it or NaN)."""
    sizes, spelling = shape_of(x), spelling_of(x)
    if not sizes:
        return [x, b.constant(0, "i64")]
    dim %= len(sizes)
    declines_along_rows(node, dim)
    op = reduction.CumMax if "cummax" in str(node.target) else reduction.CumMin
    whole = b.convert(x, "ui8") if spelling == "i1" else x
    best = op(whole, int_attr(dim), whole.type).result
    found, nan = b.pointwise("eq", whole, best), _isnan(b, whole)
    if nan is not None:
        found = b.pointwise("logical_or", found, nan)
    here = b.where(found, b.along(sizes, dim), b.constant(0, "i64"))
    return [b.convert(best, spelling), reduction.CumMax(here, int_attr(dim), here.type).result]
