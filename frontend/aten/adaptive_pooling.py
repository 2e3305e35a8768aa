"""Imports adaptive pools, which split the input into a given number of parts. If the parts tile the input, a mean is a
reduction of blocks. Otherwise each place in the longest part is one read of the input. The formula for the elements of
a part, with the two sizes exchanged, gives the parts that contain an element: gradients of means use it to gather."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuesta.dialects import types
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import joined, refuse_integers
from cuesta.frontend.aten.pooling import MOST_PLACES, beats, has_vectors_of_channels, pool_rank, window
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size


@dataclass(frozen=True)
class Parts:
    """`count` parts of `size` elements: the i-th from floor(i · size / count) to ceil((i + 1) · size / count)."""

    size: int
    count: int

    @functools.cached_property
    def lengths(self) -> list[int]:
        """How many elements each part has."""
        return [-(-(i + 1) * self.size // self.count) - i * self.size // self.count for i in range(self.count)]

    @property
    def exchanged(self) -> Parts:
        """The inverse: for each element, the parts that contain the element."""
        return Parts(self.count, self.size)

    def starts(self, b: GraphBuilder) -> Value:
        """Where each part begins."""
        return b.with_number("floor_divide", b.ramp(self.count, self.size), self.count)

    def sides(self, b: GraphBuilder) -> Value:
        """The lengths as an i64 tensor."""
        end = b.with_number("floor_divide", b.ramp(self.count, self.size, self.size + self.count - 1), self.count)
        return b.pointwise("sub", end, self.starts(b))


def _parts(b: Call, sizes: Sequence[Number], counts: Sequence[Number]) -> list[Parts]:
    """The parts along each dim. Declines symbolic sizes, and channels_last images on a CPU, of which ATen reads vectors
    of channels (measured: up to twice as fast)."""
    image = b.given(0)
    if image.device.type == "cpu" and image.dim() == 4 and has_vectors_of_channels(image):
        raise Decline("channels_last image with uneven pooling windows: ATen vectorises over the channels")
    found = []
    for size, count in zip(sizes, counts, strict=True):
        if isinstance(size, Size) or isinstance(count, Size):
            raise Decline("adaptive pooling whose window sizes depend on the call")
        found.append(Parts(size, count))
    return found


def _along(b: GraphBuilder, x: Value, dim: int, rank: int) -> Value:
    """A 1-d tensor reshaped to be dim `dim` of `rank` dims; the other dims have size 1."""
    return b.reshape(x, [shape_of(x)[0] if d == dim else 1 for d in range(rank)])


def _places(b: GraphBuilder, x: Value, parts: Sequence[Parts]) -> Iterator[tuple[tuple[int, ...], Value, Value | None]]:
    """Yields, for each place in the longest part: (place, x's elements at that place of every part, whether each part
    is long enough to have the place; None if all are)."""
    longest = [max(p.lengths) for p in parts]
    if math.prod(longest) > MOST_PLACES:
        raise Decline(f"pooling windows of more than {MOST_PLACES} elements")
    for place in itertools.product(*(range(n) for n in longest)):
        rows = [(k * p.count, p.size, p.count) for k, p in zip(place, parts, strict=True)]
        inside = [
            _along(b, b.with_number("gt", p.sides(b), k), d, len(parts))
            for d, (k, p) in enumerate(zip(place, parts, strict=True))
            if k >= min(p.lengths)
        ]
        holds = joined(b, "logical_and", inside) if inside else None
        yield place, window(b, x, [p.count for p in parts], rows), holds


def _total(b: GraphBuilder, x: Value, parts: Sequence[Parts]) -> Value:
    """The sum over each part."""
    zero = b.constant(0, spelling_of(x))
    taken = [part if holds is None else b.where(holds, part, zero) for _, part, holds in _places(b, x, parts)]
    return joined(b, "add", taken)


def _elements(b: GraphBuilder, parts: Sequence[Parts], spelling: str) -> Value:
    """How many elements each part has."""
    sides = [_along(b, p.sides(b), d, len(parts)) for d, p in enumerate(parts)]
    return b.convert(joined(b, "mul", sides), spelling)


def _tile(sizes: Sequence[Number], counts: Sequence[Number]) -> bool:
    return all(size % count == 0 for size, count in zip(sizes, counts, strict=True))


def _in_blocks(b: GraphBuilder, x: Value, counts: Sequence[Number]) -> tuple[Value, list[int]]:
    """(x with each of its last dims split into count and block, the dims of the blocks)."""
    rank, sizes = len(counts), shape_of(x)
    first = len(sizes) - rank
    apart = [n for size, count in zip(sizes[-rank:], counts, strict=True) for n in (count, size // count)]
    return b.reshape(x, [*sizes[:-rank], *apart]), [first + 2 * d + 1 for d in range(rank)]


@imports("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def adaptive_avg_pool(b: Call, x: Value, counts: Sequence[int]) -> Value:
    """The mean of each part."""
    spelling = b.spelling
    wide = b.convert(x, opmath(spelling))
    if _tile(shape_of(x)[-len(counts) :], counts):
        blocks, dims = _in_blocks(b, wide, counts)
        return b.convert(b.mean(blocks, dims), spelling)
    parts = _parts(b, shape_of(x)[-len(counts) :], counts)
    return b.convert(b.pointwise("div", _total(b, wide, parts), _elements(b, parts, spelling_of(wide))), spelling)


@imports("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(b: Call, grad: Value, x: Value) -> Value:
    rank, spelling = pool_rank(b), b.spelling
    sizes, counts = shape_of(x), shape_of(grad)[-rank:]
    wide = b.convert(grad, opmath(spelling))
    if not _tile(sizes[-rank:], counts):
        parts = _parts(b, sizes[-rank:], counts)
        share = b.pointwise("div", wide, _elements(b, parts, spelling_of(wide)))
        return b.convert(_total(b, share, [p.exchanged for p in parts]), spelling)
    sides = [size // count for size, count in zip(sizes[-rank:], counts, strict=True)]
    share = b.with_number("div", wide, math.prod(sides))
    apart = [n for count in counts for n in (count, 1)]
    spread = b.expand(
        b.reshape(share, [*sizes[:-rank], *apart]),
        [*sizes[:-rank], *(n for pair in zip(counts, sides, strict=True) for n in pair)],
    )
    return b.convert(b.reshape(spread, sizes), spelling)


@imports("adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(b: Call, x: Value, counts: Sequence[int]) -> list[Value | None]:
    """The maximum of each part and its position in the flattened input: the first of equal elements, the last NaN."""
    refuse_integers(x)
    rank = len(counts)
    sizes = shape_of(x)[-rank:]
    positions = 1 in b.read
    if not positions and _tile(sizes, counts):
        blocks, dims = _in_blocks(b, x, counts)
        return [b.reduce("amax", blocks, dims), None]
    parts = _parts(b, sizes, counts)
    if math.prod(p.size for p in parts) >= 1 << 31:
        raise Decline("image of 2³¹ or more elements")
    steps = [math.prod(p.size for p in parts[d + 1 :]) for d in range(rank)]
    lowest = b.constant(reduction.BY_NAME["amax"].identity(types.element(spelling_of(x))), spelling_of(x))
    best = offset = None
    for place, part, holds in _places(b, x, parts):
        here = b.constant(sum(k * step for k, step in zip(place, steps, strict=True)), "i32")
        if best is None or offset is None:
            best, offset = part, b.expand(here, shape_of(part))
        elif not positions:
            best = b.pointwise("maximum", best, part if holds is None else b.where(holds, part, lowest))
        else:
            better = beats(b, part, best)
            better = better if holds is None else b.pointwise("logical_and", better, holds)
            best, offset = b.where(better, part, best), b.where(better, here, offset)
    assert best is not None and offset is not None
    if not positions:
        return [best, None]
    position = b.convert(offset, "i64")
    for d, (p, step) in enumerate(zip(parts, steps, strict=True)):
        position = b.pointwise("add", position, _along(b, b.with_number("mul", p.starts(b), step), d, rank))
    return [best, position]
