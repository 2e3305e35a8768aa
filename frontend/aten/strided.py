"""Imports views that index a tensor's memory anew: diagonals, windows, any strides. They become reads at computed
positions, so that the ops that follow fuse with the read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import opmath, row_major, shape_of, spelling_of
from cuesta.errors import Unsupported
from cuesta.frontend.aten.pointwise import joined
from cuesta.frontend.aten.positions import index_into
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports, strides_of
from cuesta.sizes import number
from cuesta.torch_private.decompositions import is_non_overlapping_and_dense_or_false

#: If more windows contain one element, adding their gradients is left to ATen: each window is an operand of the kernel.
_MOST_WINDOWS = 32


@imports("diagonal", "diagonal_copy")
def diagonal(b: Call, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    rank, count = len(shape_of(x)), b.meta.shape[-1]
    starts = {dim1 % rank: max(-offset, 0), dim2 % rank: max(offset, 0)}
    first, second = sorted(starts)
    taken = index_into(b, x, [b.ramp(count, 1, starts[d]) for d in (first, second)], [first, second], in_range=True)
    at = first if second == first + 1 else 0
    return b.permute(taken, [*(d for d in range(rank - 1) if d != at), at])


@imports("diagonal_scatter")
def diagonal_scatter(b: Call, x: Value, part: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """A select for each element: on the diagonal the element of `part` for this row, else x."""
    rank, sizes, count = len(shape_of(x)), shape_of(x), shape_of(part)[-1]
    row, column = dim1 % rank, dim2 % rank
    start = max(-offset, 0)
    part = b.pad(b.convert(part, spelling_of(x)), rank - 2, start, sizes[row] - start - count)
    # The diagonal's dim takes the place of the rows; a dim of size 1 takes that of the columns.
    kept = [d for d in range(rank) if d not in (row, column)]
    order = [rank - 2 if d == row else kept.index(d) for d in range(rank) if d != column]
    part = b.permute(part, order)
    part = b.reshape(part, [1 if d == column else size for d, size in enumerate(sizes)])
    hit = b.pointwise("eq", b.with_number("add", b.along(sizes, row), offset), b.along(sizes, column))
    inside = b.with_number("lt", b.along(sizes, row), start + count)
    return b.where(b.pointwise("logical_and", hit, inside), part, x)


@imports("unfold")
def unfold(b: Call, x: Value, dim: int, size: int, step: int) -> Value:
    rank = len(shape_of(x))
    if not rank:
        return b.reshape(x, [size])
    dim %= rank
    starts = b.reshape(b.ramp(b.meta.shape[dim], step), [b.meta.shape[dim], 1])
    windows = index_into(b, x, [b.pointwise("add", starts, b.ramp(size))], [dim], in_range=True)
    return b.permute(windows, [*(d for d in range(rank + 1) if d != dim + 1), dim + 1])


@imports("unfold_backward")
def unfold_backward(b: Call, grad: Value, sizes: Sequence[int], dim: int, size: int, step: int) -> Value:
    """Sums the gradients of the windows that contain an element: reads each window at the element's place in it.

    `grad` broadcasts to the windows of a tensor of `sizes`: the window of an inverse Fourier transform is the same for
    all.
    """
    if not sizes:
        return b.reshape(grad, ())
    return b.expand(_sum_of_windows(b, grad, sizes, dim, size, step), sizes)


def _sum_of_windows(b: GraphBuilder, grad: Value, sizes: Sequence[int], dim: int, size: int, step: int) -> Value:
    """`unfold_backward` before the result is broadcast: dims other than `dim` keep `grad`'s sizes."""
    meeting, spelling = math.ceil(size / step), spelling_of(grad)
    if meeting > _MOST_WINDOWS:
        raise Decline(f"more than {_MOST_WINDOWS} windows overlap at an element")
    rank = len(sizes)
    dim %= rank
    order = [*(d for d in range(rank) if d != dim), dim, rank]
    windows = b.convert(b.permute(grad, order), opmath(spelling))
    count = shape_of(windows)[-2]
    back_in_place = [d if d < dim else rank - 1 if d == dim else d - 1 for d in range(rank)]
    if meeting == 1 and isinstance(count, int):
        apart = b.reshape(b.pad(windows, rank, 0, step - size), [*shape_of(windows)[:-2], count * step])
        total = b.pad(apart, rank - 1, 0, sizes[dim] - count * step)
        return b.convert(b.permute(total, back_in_place), spelling)
    here = b.ramp(sizes[dim])
    last = b.with_number("floor_divide", here, step)
    parts = []
    for back in range(meeting):
        number = b.with_number("sub", last, back)
        place = b.pointwise("sub", here, b.with_number("mul", number, step))
        holds = b.with_number("lt", place, size)
        holds = joined(b, "logical_and", [holds, b.with_number("ge", number, 0), b.with_number("lt", number, count)])
        clamped = [
            b.with_number("minimum", b.with_number("maximum", number, 0), count - 1),
            b.with_number("minimum", place, size - 1),
        ]
        part = index_into(b, windows, clamped, [rank - 1, rank], in_range=True)
        parts.append(b.where(holds, part, b.constant(0, spelling_of(part))))
    return b.convert(b.permute(joined(b, "add", parts), back_in_place), spelling)


@imports("as_strided", "as_strided_copy")
def as_strided(b: Call, x: Value, sizes: Sequence[int], strides: Sequence[int], offset: int | None = None) -> Value:
    """Accepts a view that changes no address, as at the end of ATen's mean over the pixels of a channels_last image,
    and any other view of an x that is dense in some order of its dims. A dense view of it reads at no positions."""
    source: Any = b.given(0)
    given, own = strides_of(source), number(source.storage_offset())
    moves = any(n != 1 and a != s for n, a, s in zip(sizes, strides, given, strict=False))
    if tuple(sizes) == shape_of(x) and not moves and offset in (None, own):
        return x
    start = 0 if offset is None else offset - own
    reach = start + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    count = math.prod(shape_of(x))
    if min(start, reach) < 0 or max(start, reach) >= 1 + sum(
        (n - 1) * s for n, s in zip(shape_of(x), given, strict=True)
    ):
        raise Unsupported("the view reaches outside of its tensor's elements")
    if not is_non_overlapping_and_dense_or_false(source):
        raise Decline("strided view of a tensor with gaps or overlaps")
    order = sorted(range(len(given)), key=lambda d: (-given[d], d))
    flat = b.reshape(b.permute(x, order), [count])
    slowest_first = sorted(range(len(sizes)), key=lambda d: -strides[d])
    ordered = [sizes[d] for d in slowest_first]
    if start == 0 and math.prod(sizes) == count and [strides[d] for d in slowest_first] == row_major(ordered):
        return b.permute(b.reshape(flat, ordered), [slowest_first.index(d) for d in range(len(sizes))])
    at = b.constant(start, "i64", [1] * max(len(sizes), 1))
    for d, s in enumerate(strides):
        at = b.pointwise("add", at, b.along(sizes, d, s))
    return b.reshape(index_into(b, flat, [at], [0], in_range=True), tuple(sizes))
