"""Imports ATen's views and data movements as the dialect's reshape, permute, expand, slice, cat and flip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta.dialects import types
from cuesta.dialects.cuesta import shape
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.aten.pooling import window
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports, strides_of
from cuesta.sizes import Number, Size, number


@imports("view.default", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "_reshape_copy", "view_copy.default")
def reshape(b: Call, x: Value, *_: Any) -> Value:
    return b.reshape(x, b.sizes)


@imports("t", "transpose", "permute", "t_copy", "transpose_copy", "permute_copy")
def permute(b: Call, x: Value, *args: Any) -> Value:
    rank = len(shape_of(x))
    dims = list(range(rank))
    name = b.name.removesuffix("_copy")
    if name == "permute":
        dims = [d % rank for d in args[0]] if rank else []
    elif rank > 1:
        i, j = (0, 1) if name == "t" else (args[0] % rank, args[1] % rank)
        dims[i], dims[j] = dims[j], dims[i]
    return b.permute(x, dims)


@imports("expand", "expand_copy")
def expand(b: Call, x: Value, *_: Any, **__: Any) -> Value:
    return b.expand(x, b.sizes)


@imports("slice.Tensor", "narrow", "narrow_copy", "slice_copy")
def slice_(b: Call, x: Value, dim: int = 0, start: int | None = None, *rest: Any) -> Value:
    dim %= len(shape_of(x))
    size = shape_of(x)[dim]
    first = clamped(start, size, 0)
    is_slice = b.name.startswith("slice")
    step = rest[1] if is_slice and len(rest) > 1 else 1
    return b.slice(x, dim, first, b.sizes[dim], step)


def clamped(position: Number | None, size: Number, default: Number) -> Number:
    """The bound of a slice, clamped to [0, size]. A negative position counts from the end; None is `default`."""
    start = default if position is None else position
    counted = start + size if start < 0 else start
    return 0 if counted < 0 else size if counted > size else counted


@imports("select.int", "select_copy")
def select(b: Call, x: Value, dim: int, index: int) -> Value:
    dim %= len(shape_of(x))
    if not isinstance(index, (int, Size)):
        raise Decline("select at an index that depends on the data")
    at = index + shape_of(x)[dim] if index < 0 else index
    return b.reshape(b.slice(x, dim, at, 1), b.sizes)


def _parts(b: GraphBuilder, x: Value, sizes: Sequence[Number], dim: int) -> list[Value]:
    parts: list[Value] = []
    start: Number = 0
    for size in sizes:
        parts.append(b.slice(x, dim, start, size))
        start += size
    return parts


@imports("split.Tensor", "split_with_sizes", "unsafe_split.Tensor", "unbind", "split_with_sizes_copy")
def split(b: Call, x: Value, *args: Any, **kwargs: Any) -> list[Value]:
    results = b.meta
    if b.name == "unbind":
        dim = (args[0] if args else kwargs.get("dim", 0)) % len(shape_of(x))
        pieces = _parts(b, x, [1] * len(results), dim)
    else:
        dim = (args[1] if len(args) > 1 else kwargs.get("dim", 0)) % len(shape_of(x))
        pieces = _parts(b, x, [number(r.shape[dim]) for r in results], dim)
    return [b.reshape(p, tuple(r.shape)) for p, r in zip(pieces, results, strict=True)]


@imports("cat")
def cat(b: Call, xs: Sequence[Value], dim: int = 0) -> Value:
    result = b.meta
    spelling = types.SPELLING[result.dtype]
    # torch lets an empty 1-d tensor stand among operands of any rank.
    return b.cat([b.convert(x, spelling) for x in xs if 0 not in shape_of(x)], dim % result.dim())


@imports("stack")
def stack(b: Call, xs: Sequence[Value], dim: int = 0) -> Value:
    dim %= len(shape_of(xs[0])) + 1
    xs = [b.convert(x, b.spelling) for x in xs]
    return b.cat([b.reshape(x, (*shape_of(x)[:dim], 1, *shape_of(x)[dim:])) for x in xs], dim)


@imports("flip")
def flip(b: Call, x: Value, dims: Sequence[int]) -> Value:
    rank = len(shape_of(x))
    if not rank or not dims:
        return x
    return shape.Flip(x, sorted({d % rank for d in dims}), x.type).result


@imports("repeat")
def repeat(b: Call, x: Value, repeats: Sequence[int]) -> Value:
    sizes = (1,) * (len(repeats) - len(shape_of(x))) + shape_of(x)
    apart = [n for size in sizes for n in (1, size)]
    wide = [n for count, size in zip(repeats, sizes, strict=True) for n in (count, size)]
    return b.reshape(b.expand(b.reshape(x, apart), wide), b.sizes)


@imports("constant_pad_nd")
def constant_pad(b: Call, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    rank = len(shape_of(x))
    for i in range(len(pad) // 2):
        x = b.pad(x, rank - 1 - i, pad[2 * i], pad[2 * i + 1], value)
    return x


def spread(b: GraphBuilder, part: Value, dim: int, size: Number, start: Number, step: int) -> Value:
    """A tensor of `size` along `dim` that has `part` at start, start + step, … and zeros elsewhere."""
    count = shape_of(part)[dim]
    if step > 1 and (isinstance(size, Size) or isinstance(count, Size)):
        # For symbolic sizes, nothing proves that the elements with their gaps fill the size. So each place reads its
        # element instead.
        if isinstance(start, Size):
            raise Decline("a step above 1 from a start that depends on the call")
        inner = [(0, 1, 1)] * (len(shape_of(part)) - dim - 1)
        found = window(b, part, [size, *shape_of(part)[dim + 1 :]], [(-start, 1, step), *inner])
        return b.where(_on_step(b, found, dim, start, step), found, b.constant(0, spelling_of(part)))
    if step > 1:
        apart = b.reshape(part, (*shape_of(part)[: dim + 1], 1, *shape_of(part)[dim + 1 :]))
        apart = b.pad(apart, dim + 1, 0, step - 1)
        part = b.reshape(apart, (*shape_of(part)[:dim], count * step, *shape_of(part)[dim + 1 :]))
    return b.pad(part, dim, start, size - start - count * step)


def _on_step(b: GraphBuilder, x: Value, dim: int, start: Number, step: int) -> Value:
    """Whether an element of x lies a multiple of `step` from `start` along `dim`."""
    offset = b.with_number("sub", b.along(shape_of(x), dim), start)
    return b.with_number("eq", b.with_number("remainder", offset, step), 0)


@imports("slice_backward")
def slice_backward(b: Call, grad: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Value:
    dim %= len(sizes)
    return spread(b, grad, dim, sizes[dim], clamped(start, sizes[dim], 0), step)


@imports("slice_scatter")
def slice_scatter(
    b: Call, x: Value, part: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    dim %= len(shape_of(x))
    size, count = shape_of(x)[dim], shape_of(part)[dim]
    if any(n != m for d, (n, m) in enumerate(zip(shape_of(part), shape_of(x), strict=True)) if d != dim):
        raise Decline("the part's sizes are not known to equal the tensor's")
    part = b.convert(part, spelling_of(x))
    first = clamped(start, size, 0)
    if step == 1:
        after = first + count
        if not isinstance(size - after, Size) and size < after:
            raise Decline("the part reaches past the tensor's end for sizes such as the traced call's")
        before, rest = b.slice(x, dim, 0, first), b.slice(x, dim, after, size - after)
        return b.cat([v for v in (before, part, rest) if shape_of(v)[dim] != 0], dim)
    offset = b.with_number("sub", b.along(shape_of(x), dim), first)
    within = b.pointwise("logical_and", b.with_number("ge", offset, 0), b.with_number("lt", offset, count * step))
    taken = b.pointwise("logical_and", _on_step(b, x, dim, first, step), within)
    return b.where(taken, spread(b, part, dim, size, first, step), x)


@imports("select_scatter")
def select_scatter(b: Call, x: Value, part: Value, dim: int, index: int) -> Value:
    dim %= len(shape_of(x))
    whole = b.reshape(part, [1 if d == dim else size for d, size in enumerate(shape_of(x))])
    return slice_scatter(b, x, whole, dim, index + shape_of(x)[dim] if index < 0 else index)


def _first_after_roll(count: int, size: Number) -> Number:
    """The index of the element that comes first after rolling `size` elements by `count` places."""
    if isinstance(size, Size) and -size <= count <= size:
        return size - count if count > 0 else -count
    return -count % size


@imports("roll")
def roll(b: Call, x: Value, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Value:
    sizes = shape_of(x)
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not sizes:
        return x
    if not dims:
        x, dims = b.reshape(x, [math.prod(sizes)]), [0]
    for count, d in zip(shifts, dims, strict=True):
        dim, size = d % len(shape_of(x)), shape_of(x)[d]
        first = _first_after_roll(count, size)
        if first != 0:
            x = b.cat([b.slice(x, dim, first, size - first), b.slice(x, dim, 0, first)], dim)
    return b.reshape(x, sizes)


@imports("select_backward")
def select_backward(b: Call, grad: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    dim %= len(sizes)
    kept = b.reshape(grad, [1 if d == dim else s for d, s in enumerate(sizes)])
    at = index + sizes[dim] if index < 0 else index
    return b.pad(kept, dim, at, sizes[dim] - 1 - at)


@imports("clone", "contiguous")
def clone(b: Call, x: Value, **_: Any) -> Value:
    # The bytes move only if the copy has other strides than its source: lowering decides.
    strides = strides_of(b.meta)
    if not strides:
        return x
    return shape.Copy(x, strides, types.tensor(shape_of(x), spelling_of(x))).result


@imports("detach", "alias", "lift_fresh_copy", "lift_fresh", "view_as", "alias_copy", "detach_copy")
def same(b: Call, x: Value, *_: Any) -> Value:
    return x
