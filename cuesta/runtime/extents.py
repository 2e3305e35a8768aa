"""Computes the extent of a tensor: the bytes from its first element to the end of its last.

extent([3, 4], [8, 1], 4) == 4 * (1 + 2 * 8 + 3 * 1)          # rows of 4 floats, 8 apart
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.sizes import Number


def extent(sizes: Sequence[Number], strides: Sequence[Number], itemsize: int) -> Number:
    """The extent in bytes; sizes and strides are in elements of `itemsize` bytes. 0 if a size is 0.

    A symbolic size is taken to be other than 0.
    """
    if any(isinstance(n, int) and n == 0 for n in sizes):
        return 0
    steps: list[Number] = [(n - 1) * stride for n, stride in zip(sizes, strides, strict=True)]
    return (1 + sum(steps)) * itemsize
