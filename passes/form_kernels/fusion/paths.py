"""Whether a path leads from one group to another through a third, while groups grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from cuesta.passes.form_kernels.fusion.nodes import Item, Node


class Members(Protocol):
    """What a group is here."""

    @property
    def members(self) -> list[Node]: ...


class Paths:
    """Dependences among the items of a function, of which those of a group count as one. `group` is that of each item
    that has one, as it is at the time of a question."""

    def __init__(self, items: Sequence[Item], group: Mapping[int, Members]) -> None:
        self.items = items
        self.group = group
        #: for each index, the groups with members both before it and not before it
        self.across = np.zeros(len(items) + 1, np.int64)

    def merge(self, a: Members, b: Members) -> None:
        """Says that two groups are one from now on."""
        indices = [[n.index for n in group.members] for group in (a, b)]
        for own in indices:
            self.across[min(own) + 1 : max(own) + 1] -= 1
        both = [*indices[0], *indices[1]]
        self.across[min(both) + 1 : max(both) + 1] += 1

    def between(self, a: Members, b: Members) -> bool:
        """Whether something outside both depends on one and is needed by the other."""
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
        """The last place up to `first` that no group is on both sides of: all that an item before it needs is before
        it too."""
        return int(np.flatnonzero(self.across[: first + 1] == 0)[-1])
