"""Imports fractional max pools: maxima of windows that begin at random places, computed from the argument `samples`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.expressions import Expression, where
from cuesta.frontend.aten.pooling import MOST_PLACES, beats, pool_rank
from cuesta.frontend.aten.positions import index_into
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number, Size


def _starts(b: GraphBuilder, sample: Value, size: int, kernel: int, count: int) -> Expression:
    """Where each of the `count` windows along a dim of `size` begins, as i64 of [N, C, count], for random numbers
    [N, C, 1] from [0, 1).

    On a CPU ATen rounds every step to the samples' type. Windows stay inside the image even for numbers not in [0, 1).
    """
    last = size - kernel
    if count == 1:
        return Expression(b, b.constant(last, "i64", shape_of(sample)))
    spelling = spelling_of(sample) if on_cpu(sample) else opmath(spelling_of(sample))
    u = Expression(b, b.convert(sample, spelling))
    step = u.number(last) / (count - 1)
    number = b.reshape(b.ramp(count), [1, 1, count])
    place, first = ((x * step).value for x in (Expression(b, b.convert(number, spelling)) + u, u))
    start = Expression(b, b.pointwise("sub", b.convert(place, "i64"), b.convert(first, "i64")))
    inside = start.of("maximum", 0).of("minimum", last)
    return where(Expression(b, number).equals(count - 1), start.number(last), inside)


@imports("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(b: Call, x: Value, kernel: Sequence[int], counts: Sequence[int], samples: Value) -> list[Value]:
    """The maximum of each window and its position in the flattened image: the first of equal elements, the last NaN."""
    rank = pool_rank(b)
    sizes = shape_of(x)[-rank:]
    if math.prod(kernel) > MOST_PLACES:
        raise Decline(f"pooling windows of more than {MOST_PLACES} elements")
    known = [n for n in (*sizes, *counts) if not isinstance(n, Size)]
    if len(known) < 2 * rank:
        raise Decline("fractional pooling of an image whose sizes depend on the call")
    planes = shape_of(samples)[:2]
    lengths = known[:rank]
    image = b.reshape(x, [*planes, *lengths])
    whole: list[Number] = [*planes, *counts]
    axes = []
    for d, (size, side, count) in enumerate(zip(lengths, kernel, counts, strict=True)):
        # For an image the first sample belongs to the last dim, for a volume the last sample does.
        sample = b.slice(samples, 2, rank - 1 - d if rank == 2 else d, 1)
        starts = _starts(b, sample, size, side, count).value
        axes.append(b.reshape(starts, [*planes, *(n if e == d else 1 for e, n in enumerate(counts))]))
    best = position = None
    for place in itertools.product(*(range(side) for side in kernel)):
        at = [Expression(b, start) + k for start, k in zip(axes, place, strict=True)]
        along = [b.along(whole, 0), b.along(whole, 1), *(a.value for a in at)]
        part = index_into(b, image, along, list(range(len(whole))), in_range=True)
        here = at[0]
        for size, a in zip(lengths[1:], at[1:], strict=True):
            here = here * size + a
        if best is None or position is None:
            best, position = part, b.expand(here.value, whole)
            continue
        better = beats(b, part, best)
        best, position = b.where(better, part, best), b.where(better, here.value, position)
    assert best is not None and position is not None
    result = [*shape_of(x)[:-rank], *counts]
    return [b.reshape(best, result), b.reshape(position, result)]
