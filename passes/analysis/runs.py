"""Cuts two shapes of a tensor into runs of dims with equal products: a reshape splits and merges dims within a run."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.sizes import Number, hint


def runs(old: Sequence[Number], new: Sequence[Number]) -> list[tuple[range, range]] | None:
    """The dims of `old` and those of `new` of each run, in order, as few dims together as possible. A run has a dim of
    each shape that has dims left. None for sizes that are equal, but not known to be."""
    found: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        first = (i, j)
        left: Number = 1
        right: Number = 1
        if i < len(old):
            left, i = old[i], i + 1
        if j < len(new):
            right, j = new[j], j + 1
        while left != right:
            if hint(left) < hint(right) if i < len(old) and j < len(new) else i < len(old):
                left, i = left * old[i], i + 1
            elif j < len(new):
                right, j = right * new[j], j + 1
            else:
                return None
        found.append((range(first[0], i), range(first[1], j)))
    return found
