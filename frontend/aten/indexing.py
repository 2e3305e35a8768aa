"""Imports reads at computed positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import indexing
from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import shape_of, spelling_of, static_shape
from cuesta.frontend.aten.pointwise import at_least_1d
from cuesta.frontend.aten.positions import index_into
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports

#: A search among more boundaries is left to ATen: each doubling adds a step of ten ops to the kernel.
_MOST_BOUNDARIES = 4096


@imports("embedding")
def embedding(b: Call, weight: Value, index: Value, *_: Any, **__: Any) -> Value:
    return index_into(b, weight, [index], [0])


@imports("index_select")
def index_select(b: Call, x: Value, dim: int, index: Value) -> Value:
    if not shape_of(x) and math.prod(shape_of(index)) != 1:
        raise Decline("not one position for a tensor without dims: ATen raises")
    x, index = at_least_1d(b, x), at_least_1d(b, index)
    taken = index_into(b, x, [index], [dim % len(shape_of(x))])
    return b.reshape(taken, b.sizes)


@imports("index.Tensor", "_unsafe_index.Tensor")
def index(b: Call, x: Value, indices: Sequence[Value | None]) -> Value:
    dims = [d for d, i in enumerate(indices) if i is not None]
    chosen = [i for i in indices if i is not None]
    if any(spelling_of(i) not in ("i64", "i32") for i in chosen):
        raise Decline("boolean mask: the result's size depends on the data")
    unsafe = b.name.startswith("_unsafe")
    return index_into(b, x, chosen, dims, in_range=unsafe, wraps=not unsafe)


@imports("gather")
def gather(b: Call, x: Value, dim: int, index: Value, **_: Any) -> Value:
    x, index = at_least_1d(b, x), at_least_1d(b, index)
    result = types.tensor(shape_of(index), spelling_of(x))
    taken = indexing.Gather(x, index, dim % len(shape_of(x)), result).result
    indexing.CheckedRead.from_zero.mark(taken.owner)
    return b.reshape(taken, b.sizes)


@imports("bucketize", "searchsorted")
def bucketize(
    b: Call,
    x: Any,
    boundaries: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """Repeats ATen's binary search step by step, so that NaN and unsorted boundaries lead to the same results. `x` may
    be a number (`searchsorted` has the boundaries first)."""
    if b.name == "searchsorted":
        x, boundaries = boundaries, x
    count = static_shape(boundaries)
    if len(count) != 1:
        raise Decline("batched boundaries")
    if sorter is not None:
        raise Decline("sorter given")
    if isinstance(x, int) or (isinstance(x, float) and types.is_float(spelling_of(boundaries))):
        x = b.constant(x, spelling_of(boundaries))
    if not isinstance(x, ir.Value) or spelling_of(x) != spelling_of(boundaries):
        raise Decline("values and boundaries have different dtypes")
    if count[0] > _MOST_BOUNDARIES:
        raise Decline(f"more than {_MOST_BOUNDARIES} boundaries")
    start, end = (b.expand(b.constant(n, "i64"), shape_of(x)) for n in (0, count[0]))
    for _ in range(count[0].bit_length()):
        middle = b.pointwise("bitwise_right_shift", b.pointwise("add", start, end), b.constant(1, "i64"))
        # `middle` may be past the end once a search is over; the element read then is not used.
        found = index_into(b, boundaries, [b.with_number("minimum", middle, count[0] - 1)], [0], in_range=True)
        stays = b.pointwise("gt" if right or side == "right" else "ge", found, x)
        going = b.pointwise("lt", start, end)
        start, end = (
            b.where(b.pointwise("gt", going, stays), b.with_number("add", middle, 1), start),
            b.where(b.pointwise("logical_and", going, stays), middle, end),
        )
    return b.convert(start, "i32" if out_int32 else "i64")
