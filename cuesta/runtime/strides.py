"""Compares strides by the places of the elements that they address."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.sizes import Number


def same_places(sizes: Sequence[Number], a: Sequence[Number], b: Sequence[Number]) -> bool:
    """Whether strides `a` and `b` put every element at the same place.

    The stride of a dim of size one does not matter, nor does any stride of a tensor without elements.
    """
    return 0 in sizes or all(size == 1 or x == y for size, x, y in zip(sizes, a, b, strict=True))
