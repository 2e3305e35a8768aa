"""Which strides put the elements of a tensor at the same places."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.sizes import Number


def same_places(sizes: Sequence[Number], a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether strides `a` and `b` put every element at the same place.

    Nothing is stepped along a dim of size one, nor where there are no elements.
    """
    return 0 in sizes or all(size == 1 or x == y for size, x, y in zip(sizes, a, b, strict=True))
