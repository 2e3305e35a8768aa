"""Images resized with antialiasing: a pixel of the result is the mean of those under a filter as wide as the scale,
along rows, then along columns, as ATen computes it. The gradient of a pixel is gathered from those that read it."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import is_float, opmath, shape_of, spelling_of
from cuesta.frontend.aten.expressions import Expression, where
from cuesta.frontend.aten.indexing import index_into
from cuesta.frontend.aten.pooling import MOST_PLACES
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size

Value: TypeAlias = ir.Value

#: Of the cubic convolution: its second derivative at 1; ATen's choice with antialiasing.
_A = -0.5
#: Where in a pixel its coordinate is, where corners are aligned too.
_MIDDLE = 0.5


def _triangle(x: Expression) -> Expression:
    return (1 - abs(x)).of("maximum", 0)


def _cubic(x: Expression) -> Expression:
    x = abs(x)
    near = ((_A + 2) * x - (_A + 3)) * x * x + 1
    far = ((_A * x - 5 * _A) * x + 8 * _A) * x - 4 * _A
    return where(x < 1, near, where(x < 2, far, 0))


@dataclass(frozen=True)
class Filter:
    """What weighs the pixels at a distance: 0 from `radius` on."""

    radius: int
    weight: Callable[[Expression], Expression]


_FILTERS = {"bilinear": Filter(1, _triangle), "bicubic": Filter(2, _cubic)}


@dataclass(frozen=True)
class Axis:
    """An axis of `size` pixels that becomes one of `count`, each the mean of those around its centre."""

    filter: Filter
    size: int
    count: int
    #: pixels of the one for each of the other
    scale: float

    @property
    def support(self) -> float:
        """How far from the centre the filter reaches, in pixels."""
        return self.filter.radius * max(self.scale, 1.0)

    @property
    def taps(self) -> int:
        """Pixels under the filter at most."""
        return math.ceil(self.support) * 2 + 1

    @property
    def readers(self) -> int:
        """Pixels of the result that read one of the image, at most, and one more at either end."""
        return math.floor(2 * self.support / self.scale) + 3

    def centre(self, at: Expression) -> Expression:
        """Of the pixels `at` of the result, in the image's coordinates."""
        return (at + _MIDDLE) * self.scale

    def bounds(self, centre: Expression) -> tuple[Expression, Expression]:
        """The first pixel under the filter, and the one after the last, as whole numbers in a float's type."""
        first = (centre - self.support + _MIDDLE).of("trunc").of("maximum", 0)
        end = (centre + self.support + _MIDDLE).of("trunc").of("minimum", self.size)
        return first, end

    def weight(self, pixel: Expression, centre: Expression, inside: Expression) -> Expression:
        """Of a pixel, before all are divided by their sum."""
        distance = (pixel - centre + _MIDDLE) / max(self.scale, 1.0)
        return where(inside, self.filter.weight(distance), 0)

    def weights(self, at: Expression) -> list[tuple[Expression, Expression]]:
        """The pixels that those `at` of the result are means of, with their weights."""
        centre = self.centre(at)
        first, end = self.bounds(centre)
        pixels = [first + k for k in range(self.taps)]
        return [(pixel, self.weight(pixel, centre, pixel < end)) for pixel in pixels]

    def total(self, at: Expression) -> Expression:
        """The sum of the weights, by which they are divided."""
        total: Expression = functools.reduce(operator.add, (weight for _, weight in self.weights(at)))
        return where(total.equals(0), total.number(1), total)


def _numbers(b: GraphBuilder, count: int, spelling: str) -> Expression:
    return Expression(b, b.convert(b.ramp(count), spelling))


def _read(x: Value, dim: int, at: Expression, factor: Expression) -> Expression:
    """x at the numbers `at` along `dim`, times the factors."""
    b = at.b
    taken = index_into(b, x, [b.convert(at.value, "i64")], [dim], in_range=True)
    sizes = [n if d == dim else 1 for d, n in enumerate(shape_of(taken))]
    return Expression(b, taken) * Expression(b, b.reshape(factor.value, sizes))


def _resized(b: GraphBuilder, x: Value, dim: int, axis: Axis) -> Value:
    at = _numbers(b, axis.count, spelling_of(x))
    total = axis.total(at)
    parts = [_read(x, dim, pixel.of("minimum", axis.size - 1), weight / total) for pixel, weight in axis.weights(at)]
    return functools.reduce(operator.add, parts).value


def _spread(b: GraphBuilder, grad: Value, dim: int, axis: Axis) -> Value:
    """The gradient of `_resized`."""
    pixel = _numbers(b, axis.size, spelling_of(grad))
    totals = axis.total(_numbers(b, axis.count, spelling_of(grad))).value
    first = ((pixel + 1 - _MIDDLE - axis.support) / axis.scale - _MIDDLE).of("floor")
    parts = []
    for k in range(axis.readers):
        at = first + k
        centre = axis.centre(at)
        start, end = axis.bounds(centre)
        there = (at >= 0) & (at < axis.count) & (pixel >= start) & (pixel < end)
        safe = at.of("maximum", 0).of("minimum", axis.count - 1)
        total = Expression(b, index_into(b, totals, [b.convert(safe.value, "i64")], [0], in_range=True))
        parts.append(_read(grad, dim, safe, axis.weight(pixel, centre, there) / total))
    return functools.reduce(operator.add, parts).value


def _axes(
    node: torch.fx.Node,
    sizes: Sequence[Number],
    counts: Sequence[Number],
    align_corners: bool,
    scales: Sequence[float | None],
) -> list[Axis]:
    """Those of rows' places and of columns'."""
    kind = _FILTERS["bicubic" if "bicubic" in str(node.target) else "bilinear"]
    axes = []
    for size, count, given in zip(sizes, counts, scales, strict=True):
        if isinstance(size, Size) or isinstance(count, Size):
            raise Decline("an image whose sizes depend on the call")
        if align_corners:
            scale = (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            scale = 1 / given if given is not None and given > 0 else size / count
        axes.append(Axis(kind, size, count, scale))
    return axes


@imports("_upsample_bilinear2d_aa.default", "_upsample_bicubic2d_aa.default")
def resize(
    b: GraphBuilder,
    node: torch.fx.Node,
    x: Value,
    counts: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Value:
    if not is_float(spelling_of(x)):
        raise Decline("ATen resizes images of bytes in whole numbers")
    axes = _axes(node, shape_of(x)[2:], counts, align_corners, [*scales, None, None][:2])
    if max(axis.taps for axis in axes) > MOST_PLACES:
        raise Decline(f"means of more than {MOST_PLACES} pixels along one axis")
    total = b.convert(x, opmath(spelling_of(x)))
    for dim in (3, 2):
        total = _resized(b, total, dim, axes[dim - 2])
    return b.convert(total, spelling_of(x))


@imports("_upsample_bilinear2d_aa_backward.default", "_upsample_bicubic2d_aa_backward.default")
def resize_backward(
    b: GraphBuilder,
    node: torch.fx.Node,
    grad: Value,
    counts: Sequence[int],
    sizes: Sequence[int],
    align_corners: bool,
    *scales: float | None,
) -> Value:
    axes = _axes(node, sizes[2:], counts, align_corners, [*scales, None, None][:2])
    if not all(axis.scale for axis in axes):
        raise Decline("one pixel of an image's corners")
    if max(axis.readers for axis in axes) > MOST_PLACES:
        raise Decline(f"more than {MOST_PLACES} pixels along one axis read one")
    total = b.convert(grad, opmath(spelling_of(grad)))
    for dim in (2, 3):
        total = _spread(b, total, dim, axes[dim - 2])
    return b.convert(total, spelling_of(grad))
