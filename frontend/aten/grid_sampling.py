"""Imports grid sampling, which interpolates an image at the places of a grid, and the gradients of image and grid.

Along each axis, a place has a few taps: pixels with weights. A sample is the sum over the taps of all axes, each pixel
times its weights. The grid's gradient is this sum with one axis's weights replaced by their derivatives. The image's
gradient is added to the same pixels.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.dialects.cuesta.scatter import Scatter
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.expressions import Expression, Operand, where
from cuesta.frontend.aten.positions import index_into, write_at
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size, hint

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)

#: Images of fewer channels are left to ATen on a CPU: ATen computes a place once for all channels, our kernels once per
#: channel. Measured: 1 to 16 channels took 0.5 to 3.7 of ATen's time, most 1.6 or more; 32 to 256 took 0.6 to 1.3.
_FEWEST_CHANNELS = 32
#: The parameter of cubic convolution, its second derivative at 1. ATen's choice.
_A = -0.75


@dataclass(frozen=True, eq=False)
class _Tap:
    """A pixel along one axis: its position, whether it is inside the image, its weight (None: 1), and the weight's
    derivative by the grid's coordinate (None: 0)."""

    at: Value
    inside: Expression
    weight: Expression | None
    slope: Expression | None


def _number(like: Expression, size: Number) -> Operand:
    """`size` as an operand of expressions: a number if it is static, else an expression."""
    return Expression(like.b, like.b.constant(size, spelling_of(like.value))) if isinstance(size, Size) else size


@dataclass(frozen=True)
class _Axis:
    """An axis of the image, of `size` pixels, and how the grid's range [-1, 1] maps to it."""

    size: Number
    padding: int
    align_corners: bool

    def taps(self, x: Expression, mode: int) -> list[_Tap]:
        """The taps for the grid's coordinates `x`: the pixels around them."""
        size = _number(x, self.size)
        scale = (size - 1) * 0.5 if self.align_corners else size * 0.5
        place = (x + 1) * scale if self.align_corners else (x + 1) * scale - 0.5
        if mode == BICUBIC:
            return self._cubic(place, scale)
        place, factor = self._padded(place)
        if mode == NEAREST:
            return [self._tap(place.of("round"), None, None)]
        slope = place.number(scale) if factor is None else factor * scale
        first = place.of("floor")
        t = place - first
        return [self._tap(first, 1 - t, -slope), self._tap(first + 1, t, slope)]

    def _cubic(self, place: Expression, scale: Operand) -> list[_Tap]:
        first = place.of("floor")
        t = place - first
        taps = []
        for step, (weight, slope) in enumerate(_cubic_weights(t), -1):
            pixel, _ = self._padded(first + step)
            taps.append(self._tap(pixel, weight, slope * scale))
        return taps

    def _tap(self, pixel: Expression, weight: Expression | None, slope: Expression | None) -> _Tap:
        last = pixel.number(_number(pixel, self.size) - 1)
        inside = (pixel >= 0) & (last >= pixel)
        at = pixel.of("fmax", 0).of("fmin", last)  # NaN gives 0
        return _Tap(pixel.b.convert(at.value, "i32"), inside, weight, slope)

    def _padded(self, place: Expression) -> tuple[Expression, Expression | None]:
        """Maps `place` to a place in the image by the padding mode; also the map's derivative, None for 1."""
        if self.padding == ZEROS:
            return place, None
        factor = None
        if self.padding == REFLECTION:
            place, factor = self._reflected(place)
        last = _number(place, self.size) - 1
        within = (place > 0) & (place < last)
        one = place.number(1)
        factor = where(within, one if factor is None else factor, 0)
        return place.of("fmax", 0).of("fmin", last), factor

    def _reflected(self, place: Expression) -> tuple[Expression, Expression]:
        """Reflects `place` at the outermost pixels' centres, or at their edges; also the reflection's derivative."""
        size = _number(place, self.size)
        low, span = (place.number(0), size - 1) if self.align_corners else (place.number(-0.5), size)
        span = place.number(span)
        apart = place - low
        far = abs(apart)
        flips = (far / span).of("floor")
        rest = far.of("fmod", span)
        even = flips.of("remainder", 2).equals(0)
        sign = where(place < low, place.number(-1), 1)
        reflected = low + where(even, rest, span - rest)
        # Between the centres of one pixel there is no span to reflect in.
        none = span.equals(0)
        return where(none, place.number(0), reflected), where(none, place.number(0), where(even, sign, -sign))


def _cubic_weights(t: Expression) -> Iterator[tuple[Expression, Expression]]:
    """The weights of the pixels at -1, 0, 1 and 2, and their derivatives by t in [0, 1)."""
    for x, sign, near in ((t + 1, 1, False), (t, 1, True), (1 - t, -1, True), (2 - t, -1, False)):
        if near:
            weight, slope = ((_A + 2) * x - (_A + 3)) * x * x + 1, (3 * (_A + 2) * x - 2 * (_A + 3)) * x
        else:
            weight, slope = ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A, (3 * _A * x - 10 * _A) * x + 8 * _A
        yield weight, slope * sign


@dataclass(frozen=True, eq=False)
class _Sampling:
    """An image [N, C, *sizes] and the taps of each of its axes, values of [N, 1, *places]."""

    b: GraphBuilder
    image: Value
    places: tuple[Number, ...]
    axes: list[list[_Tap]]
    #: one tap of each axis → the pixels read there
    known: dict[tuple[_Tap, ...], Expression]

    @staticmethod
    def of(b: GraphBuilder, image: Value, grid: Value, mode: int, padding: int, align_corners: bool) -> _Sampling:
        *places, rank = shape_of(grid)
        assert isinstance(rank, int)
        if on_cpu(image) and hint(shape_of(image)[1]) < _FEWEST_CHANNELS:
            raise Decline(f"fewer than {_FEWEST_CHANNELS} channels: ATen computes each position once for all channels")
        wide = b.convert(grid, opmath(spelling_of(grid)))
        axes = []
        for d, size in enumerate(shape_of(image)[2:]):
            column = b.slice(wide, len(places), rank - 1 - d, 1)  # the grid lists the last axis first
            x = Expression(b, b.reshape(column, [places[0], 1, *places[1:]]))
            axes.append(_Axis(size, padding, align_corners).taps(x, mode))
        return _Sampling(b, image, tuple(places), axes, {})

    def read(self, taps: tuple[_Tap, ...]) -> Expression:
        """The image's pixels at `taps`, one of each axis, in the type of its arithmetic; 0 outside the image."""
        if taps not in self.known:
            sizes = (self.places[0], shape_of(self.image)[1], *self.places[1:])
            at = [self.b.along(sizes, 0), self.b.along(sizes, 1), *(tap.at for tap in taps)]
            pixels = index_into(self.b, self.image, at, list(range(len(at))), in_range=True)
            found = Expression(self.b, self.b.convert(pixels, opmath(spelling_of(pixels))))
            self.known[taps] = where(_all_inside(taps), found, 0)
        return self.known[taps]

    def total(self, read: Callable[[tuple[_Tap, ...]], Expression], by: int | None = None) -> Expression | None:
        """The sum of `read` times the weights, or the derivative of this sum along the axis `by`; None stands for 0."""

        def along(taps: tuple[_Tap, ...]) -> Expression | None:
            if len(taps) == len(self.axes):
                return read(taps)
            total = None
            for tap in self.axes[len(taps)]:
                factor = tap.slope if len(taps) == by else tap.weight
                if factor is None and len(taps) == by:
                    continue
                part = along((*taps, tap))
                if part is not None:
                    part = part if factor is None else part * factor
                    total = part if total is None else total + part
            return total

        return along(())


def _all_inside(taps: Sequence[_Tap]) -> Expression:
    return functools.reduce(operator.and_, (tap.inside for tap in taps))


@imports("grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(b: Call, image: Value, grid: Value, *how: Any) -> Value:
    sampling = _Sampling.of(b, image, grid, *how)
    total = sampling.total(sampling.read)
    assert total is not None
    return b.convert(total.value, spelling_of(image))


@imports("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sampler_backward(b: Call, grad: Value, image: Value, grid: Value, *rest: Any) -> list[Value | None]:
    """The image's gradient and the grid's."""
    *how, wanted = rest
    sampling = _Sampling.of(b, image, grid, *how)
    grad = b.convert(grad, opmath(spelling_of(grad)))
    return [
        _image_gradient(sampling, grad) if wanted[0] else None,
        _grid_gradient(sampling, Expression(b, grad), grid) if wanted[1] else None,
    ]


def _image_gradient(sampling: _Sampling, grad: Value) -> Value:
    b, image = sampling.b, sampling.image
    total = b.constant(0, spelling_of(grad), shape_of(image))
    walks = [0, 1, *(-1 - d for d in range(len(sampling.axes)))]
    for taps in itertools.product(*sampling.axes):
        share = Expression(b, grad)
        for tap in taps:
            share = share if tap.weight is None else share * tap.weight
        share = where(_all_inside(taps), share, 0)
        total = write_at(b, total, share.value, [tap.at for tap in taps], walks, "add", Scatter.in_range)
    return b.convert(total, spelling_of(image))


def _grid_gradient(sampling: _Sampling, grad: Expression, grid: Value) -> Value:
    b, columns = sampling.b, []
    for axis in reversed(range(len(sampling.axes))):
        slope = sampling.total(sampling.read, axis)
        if slope is None:
            return b.convert(b.constant(0, spelling_of(grad.value), shape_of(grid)), spelling_of(grid))
        by_pixel = b.reduce("sum", (grad * slope).value, [1])
        columns.append(b.reshape(by_pixel, [*sampling.places, 1]))
    return b.convert(b.cat(columns, len(sampling.places)), spelling_of(grid))
