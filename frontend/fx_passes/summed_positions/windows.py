"""Windows: for each place of a result, which elements of some values are summed there, and by what they are multiplied.

A resized image's gradient is such a sum. Along each dim, the elements of a place are neighbours, and their factors are
those along one dim multiplied by those along the other: %r[i, j] = sum over p, q of A[i, p] * B[j, q] * %v[a[i] + p,
b[j] + q].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: The most factors of pairs of places and elements that are computed to find out whether they are products.
_LARGEST = 1 << 22
#: By how much of the largest factor a product of factors may differ from it: positions and weights are f32.
_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Term:
    """One of the sums that are added up: along each dim, the place that each element is added to, and the factors of
    the elements, which broadcast to all of them."""

    positions: tuple[Tensor, ...]
    factors: Tensor


@dataclass(frozen=True)
class Window:
    """The windows along one dim: `count` elements from `first` on for each place. `factors` has a line for each place;
    None where all are one."""

    first: Tensor
    count: Tensor
    factors: Tensor | None
    #: the number of elements along the dim
    line: int

    @property
    def places(self) -> int:
        return self.count.numel()

    @property
    def longest(self) -> int:
        return int(self.count.max())


def windows_of(terms: Sequence[Term], places: Sequence[int]) -> list[Window] | None:
    """The windows whose sums are those of all terms together; None where there are none."""
    rank = len(places)
    spans = [_span([term.positions[d] for term in terms], places[d]) for d in range(rank)]
    found = [s for s in spans if s is not None]
    if len(found) < rank or math.prod(s.count.numel() * s.longest for s in found) > _LARGEST:
        return None
    factors = _factors(terms, found)
    if factors is None:
        return None
    return [_trimmed(s, f) for s, f in zip(found, factors, strict=True)]


def _span(positions: Sequence[Tensor], places: int) -> Window | None:
    """The windows of several lines of positions, without factors. None where a position is outside of the places, or
    the elements of a place are no neighbours."""
    together = torch.stack([torch.where(p < 0, p + places, p) for p in positions])
    if not together.numel() or not bool(((together >= 0) & (together < places)).all()):
        return None
    line = together.shape[1]
    own = torch.arange(line).expand_as(together).flatten()
    at = together.flatten()
    first = torch.full([places], line).scatter_reduce(0, at, own, "amin")
    last = torch.full([places], -1).scatter_reduce(0, at, own, "amax")
    count = torch.unique(at * line + own).div(line, rounding_mode="floor").bincount(minlength=places)
    if not bool((torch.where(count > 0, last - first + 1, 0) == count).all()):
        return None
    return Window(torch.where(count > 0, first, 0), count, None, line)


def _factors(terms: Sequence[Term], spans: Sequence[Window]) -> list[Tensor] | None:
    """For each dim, factors of its places (first dim) and elements; None where the factors of all terms together are
    no products of such."""
    total = torch.zeros([s.places * s.longest for s in spans], dtype=torch.float64)
    for term in terms:
        cells = [p % s.places * s.longest for p, s in zip(term.positions, spans, strict=True)]
        cells = [c + torch.arange(s.line) - s.first[p] for c, p, s in zip(cells, term.positions, spans, strict=True)]
        total[torch.meshgrid(*cells, indexing="ij")] += term.factors.to(torch.float64)
    lines = _lines_of(total)
    return None if lines is None else [f.reshape(s.places, s.longest) for f, s in zip(lines, spans, strict=True)]


def _lines_of(total: Tensor) -> list[Tensor] | None:
    """Lines whose product a tensor is: those through its largest element. None for a tensor that is no such product."""
    at = torch.unravel_index(total.abs().argmax(), total.shape)
    largest = total[at]
    if not bool(largest.isfinite()) or largest == 0:
        return None
    lines: list[Tensor] = []
    for d in range(total.dim()):
        line = total[tuple(slice(None) if d == e else n for e, n in enumerate(at))]
        lines.append(line / largest if lines else line)
    product = lines[0]
    for line in lines[1:]:
        product = product[..., None] * line
    return lines if bool(((product - total).abs() <= _TOLERANCE * largest.abs()).all()) else None


def _trimmed(span: Window, factors: Tensor) -> Window:
    """The windows with these factors, without the elements at either end that count for nothing. The first pixels of a
    resized image read their neighbour's neighbour by a factor of 0."""
    own = torch.arange(span.longest)
    counts = factors != 0
    skipped = torch.where(counts, own, span.longest).amin(1)
    count = torch.where(counts, own + 1, 0).amax(1) - skipped
    first, count = torch.where(count > 0, span.first + skipped, 0), count.clamp(min=0)
    own = own[: int(count.max())]
    kept = factors.gather(1, (skipped[:, None] + own).clamp(max=span.longest - 1))
    kept = torch.where(own < count[:, None], kept, 0)
    return Window(first, count, None if bool((kept[own < count[:, None]] == 1).all()) else kept, span.line)
