"""Imports sorts, ranks, modes and running extremes. In a short row, each element counts the elements that come before
it and is written to that position. The running extreme and its position are running reductions.

Here equal numbers keep their order. If no stable order is requested, eager returns any of the equal numbers, and its
choice differs from machine to machine.
"""

from __future__ import annotations

import math
from typing import Any

from cuesta.dialects import types
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.aten.positions import write_at
from cuesta.frontend.aten.reduction import declines_along_rows
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size

#: Longer rows are left to ATen: each element is compared with all others. Measured: sorting rows of 8 to 64 took 0.2 to
#: 1.2 of ATen's time (finding the two largest of 64 took 2.2), rows of 128 took up to 12 times as long.
_MOST_COMPARED = 64


def _isnan(b: GraphBuilder, x: Value) -> Value | None:
    """Whether each element is NaN; None for a type without NaN."""
    return b.pointwise("isnan", x) if types.is_float(spelling_of(x)) else None


def _comes_before(b: GraphBuilder, x: Value, y: Value, descending: bool) -> Value:
    """Whether x has to come before y; NaN is larger than all else."""
    less = b.pointwise("gt" if descending else "lt", x, y)
    larger, smaller = (x, y) if descending else (y, x)
    nan, number = _isnan(b, larger), _isnan(b, smaller)
    if nan is None or number is None:
        return less
    return b.pointwise("logical_or", less, b.pointwise("gt", nan, number))


def _pairs(b: GraphBuilder, x: Value, dim: int) -> tuple[Value, Value, list[Number]]:
    """(x along `dim`, the elements to compare with along `dim` + 1, the sizes of all pairs, with `dim` twice)."""
    sizes = shape_of(x)
    count = sizes[dim]
    if isinstance(count, Size):
        raise Decline("rows whose length depends on the call: ATen sorts")
    if count > _MOST_COMPARED:
        raise Decline(f"rows of more than {_MOST_COMPARED} elements: ATen sorts")
    row, column = ([*sizes[:dim], *pair, *sizes[dim + 1 :]] for pair in ((1, count), (count, 1)))
    return b.reshape(x, column), b.reshape(x, row), [*sizes[:dim], count, count, *sizes[dim + 1 :]]


def _count(b: GraphBuilder, holds: Value, square: list[Number], dim: int) -> Value:
    """For each element, the number of elements of its row for which `holds` is true of the pair, as i32s."""
    return b.reduce("sum", b.convert(b.expand(holds, square), "i32"), [dim + 1])


def _ranks(b: GraphBuilder, x: Value, dim: int, descending: bool) -> Value:
    """The position of each element in its sorted row along `dim`, as i32s; equal elements keep their order."""
    own, other, square = _pairs(b, x, dim)
    first = b.pointwise("lt", b.along(square, dim + 1), b.along(square, dim))
    stays = b.pointwise("logical_not", _comes_before(b, own, other, descending))
    return _count(b, b.where(first, stays, _comes_before(b, other, own, descending)), square, dim)


def _sorted(b: GraphBuilder, values: Value, ranks: Value, dim: int) -> Value:
    """`values`, of the ranks' shape, each written at its rank along `dim`."""
    walks = [-1 if d == dim else d for d in range(len(shape_of(values)))]
    zeros = b.constant(0, spelling_of(values), shape_of(values))
    return write_at(b, zeros, values, [ranks], walks, "set", Scatter.in_range)


def _in_order(b: GraphBuilder, x: Value, dim: int, descending: bool) -> list[Value]:
    """(the elements in order, where each was)."""
    ranks, sizes = _ranks(b, x, dim, descending), shape_of(x)
    places = b.expand(b.along(sizes, dim), sizes)
    return [_sorted(b, values, ranks, dim) for values in (x, places)]


@imports("sort.default", "sort.stable")
def sort(b: Call, x: Value, *args: Any, stable: bool | None = None, **named: Any) -> list[Value]:
    """(the elements in order, where each was)."""
    dim, descending = (*args, *(named.get(n, d) for n, d in (("dim", -1), ("descending", False))[len(args) :]))
    if not shape_of(x):
        return [x, b.constant(0, "i64")]
    return _in_order(b, x, dim % len(shape_of(x)), descending)


@imports("topk")
def topk(b: Call, x: Value, count: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> list[Value]:
    if not shape_of(x):
        return [x, b.constant(0, "i64")]
    dim %= len(shape_of(x))
    return [b.slice(values, dim, 0, count) for values in _in_order(b, x, dim, largest)]


# -- the element of a given rank ---------------------------------------------------------------
def _along_dim(b: GraphBuilder, x: Value, dim: int) -> tuple[Value, int]:
    """(x with at least one dim, `dim` as a non-negative number)."""
    return (x, dim % len(shape_of(x))) if shape_of(x) else (b.reshape(x, [1]), 0)


def _chosen(b: Call, x: Value, dim: int, which: Value) -> list[Value]:
    """(in each row the largest element for which `which` is true, the last position where `which` is true), in the
    shapes of the node's results."""
    spelling = spelling_of(x)
    nothing = b.constant(reduction.BY_NAME["amax"].identity(types.element(spelling)), spelling)
    here = b.where(which, b.along(shape_of(x), dim), b.constant(0, "i64"))
    found = b.reduce("amax", b.where(which, x, nothing), [dim]), b.reduce("amax", here, [dim])
    return [b.reshape(y, tuple(meta.shape)) for y, meta in zip(found, b.meta, strict=True)]


@imports("kthvalue")
def kthvalue(b: Call, x: Value, k: Number, dim: int = -1, keepdim: bool = False) -> list[Value]:
    x, dim = _along_dim(b, x, dim)
    return _chosen(b, x, dim, b.with_number("eq", _ranks(b, x, dim, descending=False), k - 1))


def _is_middle(b: GraphBuilder, x: Value, dim: int, leaves_out_nan: bool) -> Value:
    """Whether each element is the median of its row, the lower one of two. The median of a row with NaN is the first
    NaN, or with `leaves_out_nan` the median of the other elements."""
    count, ranks, nan = shape_of(x)[dim], _ranks(b, x, dim, descending=False), _isnan(b, x)
    middle = b.constant((count - 1) // 2, "i32")
    if nan is not None:
        numbers = b.reduce("sum", b.convert(b.pointwise("logical_not", nan), "i32"), [dim], keepdim=True)
        if leaves_out_nan:
            last = b.with_number("maximum", b.with_number("sub", numbers, 1), 0)
            middle = b.with_number("floor_divide", last, 2)
        else:
            middle = b.where(b.reduce("any", nan, [dim], keepdim=True), numbers, middle)
    return b.pointwise("eq", ranks, middle)


@imports("median.dim", "nanmedian.dim")
def median_along(b: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    x, dim = _along_dim(b, x, dim)
    return _chosen(b, x, dim, _is_middle(b, x, dim, "nanmedian" in b.name))


@imports("median.default", "nanmedian.default")
def median(b: Call, x: Value) -> Value:
    flat = b.reshape(x, [math.prod(shape_of(x))])
    lowest = b.constant(reduction.BY_NAME["amax"].identity(types.element(spelling_of(x))), spelling_of(x))
    return b.reduce("amax", b.where(_is_middle(b, flat, 0, "nanmedian" in b.name), flat, lowest), [0])


@imports("mode")
def mode(b: Call, x: Value, dim: int = -1, keepdim: bool = False) -> list[Value]:
    """The least of the most frequent elements of a row. If NaN and a number are equally frequent, the number wins.
    (Eager sorts a row with NaN by a comparison that is no consistent order.)"""
    if b.meta[0].device.type != "cpu":
        raise Decline("mode on a GPU: of equally frequent values ATen takes another than on the CPU")
    x, dim = _along_dim(b, x, dim)
    own, other, square = _pairs(b, x, dim)
    equal, nan = b.pointwise("eq", own, other), _isnan(b, x)
    if nan is not None:
        both = b.pointwise("logical_and", b.pointwise("isnan", own), b.pointwise("isnan", other))
        equal = b.pointwise("logical_or", equal, both)
    counts = _count(b, equal, square, dim)
    most = b.pointwise("eq", counts, b.reduce("amax", counts, [dim], keepdim=True))
    if nan is not None:
        numbers = b.pointwise("gt", most, nan)
        none = b.pointwise("logical_not", b.reduce("any", numbers, [dim], keepdim=True))
        most = b.where(none, most, numbers)
    # Of several equally frequent elements only the least is wanted.
    highest = b.constant(reduction.BY_NAME["amin"].identity(types.element(spelling_of(x))), spelling_of(x))
    least = b.reduce("amin", b.where(most, x, highest), [dim], keepdim=True)
    found = b.pointwise("le", x, least)
    found = found if nan is None else b.pointwise("logical_or", found, nan)
    return _chosen(b, x, dim, b.pointwise("logical_and", most, found))


# -- the extreme so far -----------------------------------------------------------------------
@imports("cummax", "cummin")
def running_extreme(b: Call, x: Value, dim: int) -> list[Value]:
    """(the extreme so far, the position of the last element that equals the extreme or is NaN)."""
    sizes, spelling = shape_of(x), spelling_of(x)
    if not sizes:
        return [x, b.constant(0, "i64")]
    dim %= len(sizes)
    declines_along_rows(b, dim)
    op = reduction.CumMax if "cummax" in b.name else reduction.CumMin
    whole = b.convert(x, "ui8") if spelling == "i1" else x
    best = op(whole, dim, whole.type).result
    found, nan = b.pointwise("eq", whole, best), _isnan(b, whole)
    if nan is not None:
        found = b.pointwise("logical_or", found, nan)
    here = b.where(found, b.along(sizes, dim), b.constant(0, "i64"))
    return [b.convert(best, spelling), reduction.CumMax(here, dim, here.type).result]
