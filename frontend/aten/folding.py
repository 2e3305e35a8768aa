"""Imports col2im, which sums windows (columns of a matrix) into an image: each pixel gathers from its windows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import joined
from cuesta.frontend.aten.pooling import MOST_PLACES, window
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number


@imports("col2im")
def col2im(
    b: Call,
    x: Value,
    sizes: Sequence[Number],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    height, width = kernel
    if height * width > MOST_PLACES:
        raise Decline(f"windows of more than {MOST_PLACES} elements")
    *batch, rows, _ = shape_of(x)
    counts = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride, strict=True)
    ]
    kept = [*batch, rows // (height * width)]
    apart = b.reshape(x, [*kept, height * width, *counts])
    image = [*kept, *sizes]
    parts = []
    for i, place in enumerate(itertools.product(range(height), range(width))):
        starts = [p - k * d for p, k, d in zip(padding, place, dilation, strict=True)]
        part = b.reshape(b.slice(apart, len(kept), i, 1), [*kept, *counts])
        part = window(b, part, list(sizes), [(start, 1, s) for start, s in zip(starts, stride, strict=True)])
        # Widened only now: a window reads what is in memory.
        part = b.convert(part, opmath(spelling_of(x)))
        for dim, (start, step) in enumerate(zip(starts, stride, strict=True)):
            if step > 1:
                offset = b.with_number("add", b.along(image, len(kept) + dim), start)
                begins = b.with_number("eq", b.with_number("remainder", offset, step), 0)
                part = b.where(begins, part, b.constant(0, spelling_of(part)))
        parts.append(part)
    return b.convert(joined(b, "add", parts), spelling_of(x))
