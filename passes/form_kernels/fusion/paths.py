"""Tells whether a dependence path leads from one group to another through a third, while groups grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cuesta.passes.form_kernels.fusion.nodes import Item, Node


class Members(Protocol):
    """The part of a group that this module uses."""

    @property
    def members(self) -> list[Node]: ...


class Paths:
    """Dependences among the items of a function; the items of a group count as one. `group` maps an item's index to its
    current group, if it has one; the caller updates it."""

    def __init__(self, items: Sequence[Item], group: Mapping[int, Members]) -> None:
        self.items = items
        self.group = group
        #: for each index, how many groups have members both before and at or after it
        self.across = np.zeros(len(items) + 1, np.int64)

    def merge(self, a: Members, b: Members) -> None:
        """Records that two groups are one from now on."""
        indices = [[n.index for n in group.members] for group in (a, b)]
        for own in indices:
            self.across[min(own) + 1 : max(own) + 1] -= 1
        both = [*indices[0], *indices[1]]
        self.across[min(both) + 1 : max(both) + 1] += 1

    def between(self, a: Members, b: Members) -> bool:
        """Whether an item outside both groups depends on one group and is needed by the other."""
        return self._reaches(a, b) or self._reaches(b, a)

    def _reaches(self, source: Members, target: Members) -> bool:
        source_members = {n.index for n in source.members}
        target_members = {n.index for n in target.members}
        cut = self._cut(min(source_members))
        pending = [i for m in target_members for i in self.items[m].sources]
        seen: set[int] = set()
        while pending:
            index = pending.pop()
            if index < cut or index in seen or index in target_members or index in source_members:
                continue
            group = self.group.get(index)
            members = [n.index for n in group.members] if group else [index]
            seen.update(members)
            for member in members:
                for upstream in self.items[member].sources:
                    if upstream in source_members:
                        return True
                    pending.append(upstream)
        return False

    def _cut(self, first: int) -> int:
        """The last position up to `first` that no group spans: everything that an item before this position needs is
        before it too."""
        return first - int((self.across[first::-1] == 0).argmax())
