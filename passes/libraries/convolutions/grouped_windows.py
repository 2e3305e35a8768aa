"""Takes grouped convolutions with long windows along one dim apart, for passes that compute them as products.

In a padded copy of the images that has each group's channels side by side, a window is contiguous memory, and the
windows of neighbouring places overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects.cuesta.indexing import Window
from cuesta.dialects.cuesta.shape import Flip, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import LEAST
from cuesta.dialects.types import byte_size, shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.match import only_user
from cuesta.passes.graph.reshapes.split_readers import Merged

_B = GraphBuilder()

#: The types that a product is fast in on the targets that have the passes.
_FLOATS = ("bf16", "f16")
#: The fewest places of a window: for shorter ones cuDNN and oneDNN may have a kernel.
_LEAST_PLACES = 16
#: Windows begin at multiples of so many bytes: each of a thread's loads is as wide.
_ALIGNED = 16


@dataclass(frozen=True)
class Windows:
    """The windows of a grouped convolution, which lie along one dim."""

    groups: int
    #: The dim of the images along which they lie, their places, how far apart they begin, and the zeros at each end.
    dim: int
    places: int
    stride: int
    padding: int

    @staticmethod
    def of(x: ir.Value, weight: ir.Value, parameters: Sequence[Any]) -> Windows | None:
        """The windows of a convolution with these parameters, as aten.convolution takes them; None where they are short
        or lie along several dims, and where a kernel cannot read them."""
        stride, padding, dilation, transposed, _, groups = parameters
        sizes = [*shape_of(x), *shape_of(weight)]
        if transposed or spelling_of(x) not in _FLOATS or any(type(n) is not int or n == 0 for n in sizes):
            return None
        channels, inner, *window = static_shape(weight)
        (d, *others) = sorted(range(len(window)), key=lambda d: -window[d])
        if any(window[e] != 1 or stride[e] != 1 or padding[e] != 0 for e in others):
            return None
        if window[d] < _LEAST_PLACES or dilation[d] != 1:
            return None
        if groups == 1 or any(n % (_ALIGNED // byte_size(spelling_of(x))) for n in (inner, channels // groups)):
            return None
        size = static_shape(x)[d + 2]
        if min(size, (size + 2 * padding[d] - window[d]) // stride[d] + 1) < LEAST:
            return None
        return Windows(groups, d + 2, window[d], stride[d], padding[d])

    def copied(self, images: ir.Value, before: int, length: int) -> ir.Value:
        """[N, C, ...] as [groups, N, ..., length * channels of a group], with `before` zeros first, and last as many as
        the length takes."""
        n, channels, *places = static_shape(images)
        inner = channels // self.groups
        parted = _B.reshape(images, [n, self.groups, inner, *places])
        others = [d + 1 for d in range(2, len(places) + 2) if d != self.dim]
        rows = _B.permute(parted, [1, 0, *others, self.dim + 1, 2])
        *batch, _, _ = static_shape(rows)
        sizes = [*batch, length, inner]
        starts = [*(0 for _ in batch), -before, 0]
        ones = [1] * len(sizes)
        rows = Window(rows, starts, ones, ones, 0.0, tensor(sizes, spelling_of(rows))).result
        return _B.reshape(rows, [*batch, length * inner])

    def rows(self, images: ir.Value, start: int, count: int) -> ir.Value:
        """The rows of images in which lie `count` windows, from the window `start` on."""
        return self.copied(images, self.padding - start * self.stride, (count - 1) * self.stride + self.places)

    def images(self, total: ir.Value, kind: str) -> Merged:
        """[groups, N, ..., channels of a group, places] as images [N, C, ...] of the type `kind`."""
        rank = len(shape_of(total))
        others = iter(range(2, rank - 2))
        places = ((rank - 1,) if d == self.dim else (next(others),) for d in range(2, rank - 1))
        return Merged(_B.convert(total, kind), ((1,), (0, rank - 2), *places))

    def by_result(self, weight: ir.Value) -> ir.Value:
        """The weight as [groups, results, places * channels]."""
        outer, inner, *_ = static_shape(weight)
        turned = _B.permute(_B.reshape(weight, [outer, inner, self.places]), [0, 2, 1])
        return _B.reshape(turned, [self.groups, outer // self.groups, self.places * inner])

    def by_channel(self, weight: ir.Value) -> ir.Value:
        """The weight of the images' gradient: [groups, channels, places * results], the last place first."""
        outer, inner, *_ = static_shape(weight)
        parted = _B.reshape(weight, [self.groups, outer // self.groups, inner, self.places])
        turned = _B.permute(parted, [0, 2, 3, 1])
        flipped = Flip(turned, [2], turned.type).result
        return _B.reshape(flipped, [self.groups, inner, self.places * (outer // self.groups)])


def read_result(op: ir.Operation, dim: int) -> tuple[ir.Value, int]:
    """What is read of a convolution: a slice along `dim`, if it alone reads the result, and where it starts; or the
    result, and 0."""
    (whole,) = op.results
    user = only_user(whole)
    if user is None or not Slice.matches(user) or Slice.steps.of(user)[dim] != 1:
        return whole, 0
    sizes, kept = static_shape(whole), static_shape(user.results[0])
    cut = [d for d, (n, m) in enumerate(zip(sizes, kept, strict=True)) if n != m]
    is_part = cut == [dim] and kept[dim] >= LEAST
    return (user.results[0], Slice.starts.known(user)[dim]) if is_part else (whole, 0)
