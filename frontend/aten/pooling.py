"""Imports max and average pools and their gradients.

Each place in a window is one read of the input; the reads are combined element by element. An input element's
gradient is gathered from the windows that contain it, or scattered to a maximum's position if that is faster.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.dialects import types
from cuesta.dialects.cuesta import indexing, reduction
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import joined
from cuesta.frontend.aten.positions import write_at
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports, sizes_of
from cuesta.sizes import Number, Size
from cuesta.torch_private.symbolic_shapes import statically_known_true

#: Pools of windows with more places than this are left to ATen: each place is an operand of the kernel.
MOST_PLACES = 32


@dataclass(frozen=True)
class Window:
    """The windows along one dim of `size` elements: `count` windows, `stride` apart, the first at -`padding`."""

    size: Number
    count: Number
    kernel: int
    stride: int
    padding: int
    dilation: int = 1

    @property
    def after(self) -> Number:
        """How far the last window reaches past the end of the dim, in elements; negative if it ends before."""
        return (self.count - 1) * self.stride + (self.kernel - 1) * self.dilation + 1 - self.size - self.padding

    @property
    def meeting(self) -> int:
        """The most windows that can contain one element."""
        return math.ceil(self.kernel / self.stride)


def pool_rank(b: Call) -> int:
    """The number of dims of a pool's windows, from the name of its op."""
    return 2 if "2d" in b.name else 3


def _each(numbers: int | Sequence[int], rank: int) -> list[int]:
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * rank if len(listed) == 1 else listed


def _windows(
    sizes: Sequence[Number],
    counts: Sequence[Number],
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> list[Window]:
    """The windows along each dim, from a pool's arguments. `ceil_mode` has told torch the `counts` already."""
    rank = len(counts)
    kernel = _each(kernel, rank)
    columns = (sizes[-rank:], counts, kernel, _each(stride, rank) if stride else kernel)
    found = [Window(*row) for row in zip(*columns, _each(padding, rank), _each(dilation, rank), strict=True)]
    if math.prod(kernel) > MOST_PLACES:
        raise Decline(f"pooling windows of more than {MOST_PLACES} elements")
    return found


def window(
    b: GraphBuilder, x: Value, sizes: Sequence[Number], rows: Sequence[tuple[int, int, int]], outside: float = 0
) -> Value:
    """x read along its last dims at (start + i * step) // divisor for each i below `sizes`; `outside` for positions
    outside x. `rows`: (start, step, divisor) of each of these dims."""
    kept = len(shape_of(x)) - len(rows)
    columns = zip((0, 1, 1), zip(*rows, strict=True), strict=True)
    lists = [[*[default] * kept, *column] for default, column in columns]
    result = types.tensor([*shape_of(x)[:kept], *sizes], spelling_of(x))
    return indexing.Window(x, *lists, outside, result).result


def _places(b: GraphBuilder, x: Value, windows: Sequence[Window], outside: float) -> Iterator[Value]:
    """Yields, for each place in a window, the elements of all windows there; `outside` for positions outside x."""
    for place in itertools.product(*(range(w.kernel) for w in windows)):
        rows = [(k * w.dilation - w.padding, w.stride, 1) for w, k in zip(windows, place, strict=True)]
        yield window(b, x, [w.count for w in windows], rows, outside)


def _along(b: GraphBuilder, sizes: Sequence[Number], windows: Sequence[Window], d: int) -> Value:
    """The indices along the d-th of the windows' dims of a tensor of `sizes`. The result has size 1 along every other
    dim, so what is computed from indices alone stays small."""
    return b.along(sizes, len(sizes) - len(windows) + d)


def _flat(b: GraphBuilder, windows: Sequence[Window], along: Sequence[Value]) -> Value:
    """Combines positions along each dim to positions in the flattened input."""
    flat = along[0]
    for w, at in zip(windows[1:], along[1:], strict=True):
        flat = b.pointwise("add", b.with_number("mul", flat, w.size), at)
    return flat


def _affine(b: GraphBuilder, x: Value, factor: int, addend: int) -> Value:
    return b.with_number("add", b.with_number("mul", x, factor), addend)


@imports("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(b: Call, x: Value, *shape: Any) -> list[Value | None]:
    rank = pool_rank(b)
    windows = _windows(shape_of(x), sizes_of(b.meta[0])[-rank:], *shape)
    lowest = reduction.BY_NAME["amax"].identity(types.element(spelling_of(x)))
    places = list(_places(b, x, windows, lowest))
    if 1 not in b.read:
        return [joined(b, "maximum", places), None]
    offsets = _offsets(windows)
    best = places[0]
    # The maximum's offset from its window's first place; -1 if all elements are the type's lowest number.
    kind = "i64" if any(isinstance(n, Size) for n in offsets) else "i32"
    offset = b.expand(b.constant(0, kind), shape_of(best))
    if any(w.padding for w in windows):
        found = b.pointwise("logical_or", b.with_number("gt", best, lowest), b.pointwise("isnan", best))
        offset = b.where(found, offset, b.constant(-1, kind))
    for here, part in zip(offsets[1:], places[1:], strict=True):
        better = beats(b, part, best)
        offset = b.where(better, b.constant(here, kind), offset)
        best = b.where(better, part, best)
    return [best, _position(b, windows, b.convert(offset, "i64"))]


def _offsets(windows: Sequence[Window]) -> list[Number]:
    """The offset of each place from its window's first place, in the flattened input."""
    elements = math.prod(w.size for w in windows)
    if isinstance(elements, int) and elements >= 1 << 31:
        raise Decline("image of 2³¹ or more elements")
    sides = [math.prod(v.size for v in windows[d + 1 :]) * w.dilation for d, w in enumerate(windows)]
    places = itertools.product(*(range(w.kernel) for w in windows))
    return [sum(k * side for k, side in zip(place, sides, strict=True)) for place in places]


def _position(b: GraphBuilder, windows: Sequence[Window], offset: Value) -> Value:
    """The position in the flattened input at `offset` from each window's first place. A negative offset stands for
    the window's first place inside the input."""
    sizes = shape_of(offset)
    starts = [_affine(b, _along(b, sizes, windows, d), w.stride, -w.padding) for d, w in enumerate(windows)]
    position = b.pointwise("add", _flat(b, windows, starts), offset)
    if not any(w.padding for w in windows):
        return position
    insides = []
    for w, start in zip(windows, starts, strict=True):
        inside = b.with_number("remainder", start, w.dilation) if w.dilation > 1 else b.constant(0, "i64")
        insides.append(b.where(b.with_number("lt", start, 0), inside, start) if w.padding else start)
    return b.where(b.with_number("lt", offset, 0), _flat(b, windows, insides), position)


def _meeting(b: GraphBuilder, x: Value, windows: Sequence[Window], outside: float) -> Iterator[tuple[list[int], Value]]:
    """Yields (steps along each dim, value) for all windows that may contain an element. For each element, the value is
    x (of the windows' shape) at the window that is these steps before the last one that may contain the element."""
    for back in itertools.product(*(range(w.meeting) for w in windows)):
        rows = [(w.padding - steps * w.stride, 1, w.stride) for w, steps in zip(windows, back, strict=True)]
        yield list(back), window(b, x, [w.size for w in windows], rows, outside)


def _scatters_faster(b: Call, windows: Sequence[Window]) -> bool:
    """Whether gathering the gradients takes longer on a CPU than ATen's serial loop (measured: 2 to 8 times). It does
    if many windows contain an element, if vectors gather with gaps, or if narrow numbers are gathered from rows."""
    result = b.meta
    meeting = math.prod(w.meeting for w in windows)
    rows, narrow = statically_known_true(result.stride()[-1] == 1), result.dtype.itemsize < 4
    apart = meeting > 1 and any(w.stride > 1 for w in windows)
    return result.device.type == "cpu" and (meeting > 9 or (rows and narrow) or (apart and (rows or narrow)))


@imports("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(b: Call, grad: Value, x: Value, *rest: Any) -> Value:
    rank = pool_rank(b)
    *shape, indices = rest
    windows = _windows(shape_of(x), shape_of(grad)[-rank:], *shape)
    if any(w.dilation > 1 for w in windows) or _scatters_faster(b, windows):
        return to_positions(b, grad, indices, shape_of(x))
    wide = opmath(spelling_of(grad))
    here = _flat(b, windows, [_along(b, shape_of(x), windows, d) for d in range(rank)])
    parts = []
    for (_, at), (_, part) in zip(_meeting(b, indices, windows, -1), _meeting(b, grad, windows, 0), strict=True):
        parts.append(b.where(b.pointwise("eq", at, here), b.convert(part, wide), b.constant(0, wide)))
    return b.convert(joined(b, "add", parts), b.spelling)


@imports("max_pool_backward", namespace="cuesta")
def max_pool_backward_by_offsets(
    b: Call,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    offsets: Value,
) -> Value:
    windows = _windows(shape_of(x), shape_of(grad)[-2:], kernel, stride, padding, 1, ceil_mode)
    wide = opmath(spelling_of(grad))
    along = [_along(b, shape_of(x), windows, d) for d in range(2)]
    parts = []
    for (back, at), (_, part) in zip(_meeting(b, offsets, windows, -1), _meeting(b, grad, windows, 0), strict=True):
        # The place in the window that is `back` steps before the last one that contains the element.
        places = []
        for w, here, steps in zip(windows, along, back, strict=True):
            last = b.with_number("remainder", b.with_number("add", here, w.padding), w.stride)
            places.append(b.with_number("add", last, steps * w.stride))
        own = _flat(b, windows, places)
        is_maximum = b.pointwise("eq", b.convert(at, spelling_of(own)), own)
        parts.append(b.where(is_maximum, b.convert(part, wide), b.constant(0, wide)))
    return b.convert(joined(b, "add", parts), b.spelling)


def has_vectors_of_channels(image: torch.Tensor) -> bool:
    """Whether an image has several channels (dim 1) and they are contiguous; False if that is not statically known."""
    return statically_known_true(image.stride(1) == 1) and statically_known_true(image.shape[1] > 1)


def to_positions(b: Call, grad: Value, positions: Value, sizes: Sequence[Number]) -> Value:
    """The node's result, of `sizes`: each gradient is added at its position in the flattened image, in the order of
    ATen's loop."""
    result, rank = b.meta, pool_rank(b)
    if result.device.type == "cpu" and result.dim() == rank + 2 and has_vectors_of_channels(result):
        # Measured: our kernel took 1.3 to 3.8 of ATen's time.
        raise Decline("gradient of pooling in channels_last: ATen vectorises over the channels")
    planes = sizes[:-rank]
    flat = [*planes, math.prod(sizes[-rank:])]
    zeros = b.constant(0, spelling_of(grad), flat)
    ends = [*planes, math.prod(shape_of(grad)[-rank:])]
    walks = [*range(len(planes)), -1]
    written = write_at(b, zeros, b.reshape(grad, ends), [b.reshape(positions, ends)], walks, "add")
    return b.reshape(written, sizes)


@imports(
    *("adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward"),
    *("fractional_max_pool2d_backward", "fractional_max_pool3d_backward"),
)
def other_max_pool_backward(b: Call, grad: Value, x: Value, *rest: Any) -> Value:
    return to_positions(b, grad, rest[-1], shape_of(x))


def beats(b: GraphBuilder, x: Value, best: Value) -> Value:
    """Whether each element replaces the best so far: of equal elements the first is chosen, of NaNs the last."""
    return b.pointwise("logical_or", b.pointwise("gt", x, best), b.pointwise("isnan", x))


def _divisor(
    b: GraphBuilder, sizes: Sequence[Number], windows: Sequence[Window], spelling: str, padded: bool, given: int | None
) -> Value:
    """The divisor of the sum over each window."""
    if given:
        return b.constant(given, spelling)
    if all(isinstance(w.after, int) and w.after <= 0 and (padded or not w.padding) for w in windows):
        return b.constant(math.prod(w.kernel for w in windows), spelling)
    counts = []
    for d, w in enumerate(windows):
        start = _affine(b, _along(b, sizes, windows, d), w.stride, -w.padding)
        end = b.with_number("minimum", b.with_number("add", start, w.kernel), w.size + (w.padding if padded else 0))
        counts.append(b.pointwise("sub", end, start if padded else b.with_number("maximum", start, 0)))
    return b.convert(joined(b, "mul", counts), spelling)


@imports("avg_pool2d", "avg_pool3d")
def avg_pool(
    b: Call,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    result = b.meta
    rank, spelling = pool_rank(b), b.spelling
    windows = _windows(shape_of(x), sizes_of(result)[-rank:], kernel, stride, padding)
    wide = b.convert(x, opmath(spelling))
    total = joined(b, "add", _places(b, wide, windows, 0))
    divisor = _divisor(b, sizes_of(result), windows, opmath(spelling), count_include_pad, divisor_override)
    return b.convert(b.pointwise("div" if "f" in spelling else "trunc_divide", total, divisor), spelling)


@imports("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    b: Call,
    grad: Value,
    x: Value,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: int | Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Value:
    rank, spelling = pool_rank(b), b.spelling
    windows = _windows(shape_of(x), shape_of(grad)[-rank:], kernel, stride, padding)
    wide = b.convert(grad, opmath(spelling))
    divisor = _divisor(b, shape_of(grad), windows, opmath(spelling), count_include_pad, divisor_override)
    parts = []
    for back, part in _meeting(b, b.pointwise("div", wide, divisor), windows, 0):
        for d, (w, steps) in enumerate(zip(windows, back, strict=True)):
            if w.kernel % w.stride and steps == w.meeting - 1:
                # The window that is furthest back ends before some of the elements.
                offset = b.with_number("add", _along(b, shape_of(x), windows, d), w.padding)
                reached = b.with_number("lt", b.with_number("remainder", offset, w.stride), w.kernel - steps * w.stride)
                part = b.where(reached, part, b.constant(0, spelling_of(part)))
        parts.append(part)
    return b.convert(joined(b, "add", parts), spelling)
