"""Compares two shapes of a tensor: runs of dims with equal products, within which a reshape splits and merges dims, and
the dims into which both shapes can be split."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

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


def ends(sizes: Sequence[int]) -> set[int]:
    """Of dims, the number of elements from each on to the last dim's end."""
    return {math.prod(sizes[d:]) for d in range(len(sizes))}


def dims_between(found: Collection[int]) -> list[int] | None:
    """The dims that have these ends, the last of which is 1; None where one of them is no multiple of the next."""
    steps = list(itertools.pairwise(sorted(found, reverse=True)))
    return [a // b for a, b in steps] if all(a % b == 0 for a, b in steps) else None
