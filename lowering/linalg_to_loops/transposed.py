"""Builds the vector shuffles that transpose a square of elements in registers."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir, vector


def transposed(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors: as many rows as each has elements, a power of two. Each round interleaves the
    rows of the upper half with the rows of the lower half, which halves the distance between elements of a column."""
    lanes = len(rows)
    half = lanes // 2
    low = [place for i in range(half) for place in (i, lanes + i)]
    patterns = (low, [place + half for place in low])
    values = list(rows)
    for _ in range(half.bit_length()):
        values = [vector.shuffle(values[i], values[half + i], p) for i in range(half) for p in patterns]
    return values
