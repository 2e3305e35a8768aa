"""Squares of elements transposed in registers."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir, vector


def transposed(rows: Sequence[ir.Value]) -> list[ir.Value]:
    """The columns of a square of vectors, as many as each has elements, a power of two. In each round rows of the upper
    half and of the lower half are shuffled like cards: a round halves the distance of what was a column."""
    lanes = len(rows)
    half = lanes // 2
    low = [place for i in range(half) for place in (i, lanes + i)]
    patterns = (low, [place + half for place in low])
    values = list(rows)
    for _ in range(half.bit_length()):
        values = [vector.shuffle(values[i], values[half + i], p) for i in range(half) for p in patterns]
    return values
