"""Describes the loops and the tensors of a GPU kernel as numbers, and how its programs walk some of the loops."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field

from cuesta.passes.form_kernels.fusion.limits import FEW_IN_A_ROW
from cuesta.sizes.powers import power_at_least

#: The most large tensors of a kernel whose threads have 16 elements of each.
MOST_LARGE = 8
#: Bytes that memory moves at once.
_SECTOR = 32


@dataclass(frozen=True)
class Space:
    """The loops and the tensors of a kernel. A loop's number is its class."""

    #: The size of each class.
    sizes: Sequence[int]
    parallel: frozenset[int]
    #: The classes of each tensor's dims, in memory order.
    tensors: Sequence[Sequence[int]]
    #: The same of the tensors that are written, which are among `tensors`.
    written: Sequence[Sequence[int]]
    #: The classes that each generic walks. A program holds as many elements as its largest generic has in the block.
    generics: Sequence[Sequence[int]]
    #: The classes that each of them reduces. A scatter reduces none: all its loops are parallel.
    reduced: Sequence[Set[int]]
    #: The size of an element of the largest tensor, in bytes.
    width: int = 4
    #: Whether the kernel reads at computed positions.
    gathers: bool = False
    #: The classes that positions depend on which are not known to follow one another (`looked_up`).
    looked_up: Sequence[int] = ()
    #: How many such reads there are.
    lookups: int = 0
    #: Whether it writes at computed positions.
    scatters: bool = False
    #: The strides of the dims of each tensor, but for the last tensors, which are read at computed positions.
    strides: Sequence[Sequence[int]] = ()

    @functools.cached_property
    def whole(self) -> list[int]:
        """The classes along which something is reduced. A program has them whole, or walks them in a loop."""
        return [c for c in range(len(self.sizes)) if c not in self.parallel]

    @functools.cached_property
    def fastest(self) -> set[int]:
        """The classes that walk the contiguous dim of a large tensor."""
        return {t[-1] for t in self._large}

    @functools.cached_property
    def _large(self) -> list[Sequence[int]]:
        most = max(self.elements_of(t) for t in self.tensors)
        return [t for t in self.tensors if t and 4 * self.elements_of(t) >= most]

    @property
    def large(self) -> int:
        """The number of large tensors, at least 1."""
        return max(len(self._large), 1)

    @functools.cached_property
    def in_sectors(self) -> bool:
        """Whether all rows of the large tensors begin at multiples of the bytes that memory moves at once."""
        read = itertools.zip_longest(self.tensors, self.strides, fillvalue=())
        rows = [strides[:-1] or [self.sizes[t[-1]]] for t, strides in read if t in self._large]
        return not any(stride * self.width % _SECTOR for own in rows for stride in own)

    def beside(self, c: int) -> list[int]:
        """The parallel classes whose elements lie side by side in the large tensors that class c walks fastest: c, and
        where it has few elements the next ones, as of channels that are counted by groups."""
        tails = [list(reversed(t)) for t in self._large if t[-1] == c]
        found = [c]
        for following in zip(*(t[1:] for t in tails), strict=False):
            is_next = len({*following}) == 1 and following[0] in self.parallel
            if self.elements_of(found) >= FEW_IN_A_ROW or not is_next:
                break
            found.append(following[0])
        return found

    def runs(self, least: int, most: int) -> dict[int, int]:
        """Class → how many of its elements take part in `least` neighbours of some large tensor, or in more; in fewer
        where a block of all would have more than `most` elements. Empty if all have the same neighbours, or 32 bytes of
        them: then a block of these is read and written in order."""
        found = {neighbours(t, self.sizes, least) for t in self._large}
        is_in_order = len(self.fastest) == 1 and self.elements_of([*self.fastest]) * self.width >= _SECTOR
        if len(found) < 2 or is_in_order:
            return {}
        joined: dict[int, int] = {}
        for c, n in itertools.chain(*found):
            joined[c] = max(joined.get(c, 1), n)
        while math.prod(joined.values()) > most:
            joined[max(joined, key=joined.__getitem__)] //= 2
        return joined

    @functools.cached_property
    def total(self) -> int:
        """The most elements that a generic walks."""
        return max(map(self.elements_of, self.generics))

    def elements_of(self, classes: Sequence[int]) -> int:
        return math.prod(self.sizes[c] for c in classes)

    def can_loop(self, walked: Collection[int]) -> bool:
        """Whether loops may walk the classes `walked`: a generic that reduces one of them must reduce all of them that
        it walks."""
        pairs = zip(self.generics, self.reduced, strict=True)
        return all(reduced.isdisjoint(walked) or {*classes} & {*walked} <= reduced for classes, reduced in pairs)

    @property
    def only_reduces(self) -> bool:
        """Whether the kernel reduces, and writes nothing but what was reduced, each result along some class."""
        return any(self.reduced) and not any({*self.whole} <= {*classes} for classes in self.written)

    @property
    def columns(self) -> int | None:
        """The class of the contiguous dim, where nothing is reduced and several rows share a number for each column,
        such as a factor. None where more large tensors than `MOST_LARGE` would fill the registers."""
        if self.whole or self.gathers or len(self.fastest) != 1:
            return None
        (c,) = self.fastest
        largest = {*max(self.tensors, key=self.elements_of)}
        shared = any(c in t and set(t) < largest for t in self.tensors)
        return c if shared and sum(set(t) == largest for t in self.tensors) <= MOST_LARGE else None


def neighbours(classes: Sequence[int], sizes: Sequence[int], least: int) -> tuple[tuple[int, int], ...]:
    """The last of a tensor's classes, each with its part of `least` neighbours."""
    run = []
    for c in reversed(classes):
        part = min(power_at_least(sizes[c]), least)
        run.append((c, part))
        least //= part
        if least <= 1:
            break
    return tuple(run)


@dataclass(frozen=True)
class Walk:
    """How a program walks classes in loops, a block at a time."""

    #: Class → the most elements of a turn, which has one row of the class at least.
    turns: Mapping[int, int] = field(default_factory=dict)
    #: Elements of a turn that a thread has.
    per_thread: int = 8
    #: Whether a turn takes more elements along parallel classes, as far as there is room for them.
    widens: bool = True
    #: Whether a turn takes more elements along the walked class where few programs would have too few loads in flight.
    lengthens: bool = True
    #: Turns whose loads are in flight at once.
    stages: int = 1
    #: The classes whose few elements are taken one after the other, each by ops of its own.
    singles: frozenset[int] = frozenset()
