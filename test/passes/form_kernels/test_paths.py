"""Paths between groups, through groups that lead back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from cuesta.passes.form_kernels.fusion.paths import Paths


@dataclass
class Thing:
    index: int
    sources: set[int] = field(default_factory=set)


@dataclass
class Several:
    members: list[Any]


class Graph:
    """Items by what each needs, and groups of them."""

    def __init__(self, *sources: set[int]) -> None:
        self.items = [Thing(i, needed) for i, needed in enumerate(sources)]
        self.groups = {i: Several([item]) for i, item in enumerate(self.items)}
        self.paths = Paths(self.items, self.groups)  # type: ignore[arg-type]

    def merge(self, *indices: int) -> None:
        first, *others = indices
        for index in others:
            a, b = self.groups[first], self.groups[index]
            self.paths.merge(a, b)
            both = Several(sorted(a.members + b.members, key=lambda m: m.index))
            self.groups |= {m.index: both for m in both.members}

    def between(self, a: int, b: int) -> bool:
        return self.paths.between(self.groups[a], self.groups[b])


def test_neighbours_and_strangers() -> None:
    graph = Graph(set(), {0}, {1}, set())
    assert not graph.between(0, 1)
    assert graph.between(0, 2) and graph.between(2, 0)
    assert not graph.between(0, 3)


@pytest.mark.parametrize("apart", [0, 5])
def test_a_group_leads_back(apart: int) -> None:
    """0 → 1 → 2 needs 4 through the group of 0 and 5, which 4 reaches: so 3, behind 2, cannot join 4."""
    unrelated: list[set[int]] = [set() for _ in range(apart)]
    graph = Graph(set(), {0}, {1}, {2}, *unrelated, set(), {4 + apart})
    four, five = 4 + apart, 5 + apart
    assert not graph.between(3, four)
    graph.merge(0, five)
    assert graph.between(3, four)


def test_a_way_back_that_two_groups_make() -> None:
    """Neither group crosses from 4 to 1, but one after the other."""
    graph = Graph(set(), {0}, set(), {2}, set(), {4})
    graph.merge(0, 3)  # 1 needs 0, and so 2
    graph.merge(2, 5)  # which needs 4
    assert graph.between(1, 4)


def test_a_group_that_has_grown_is_counted_once() -> None:
    graph = Graph(*(set() for _ in range(6)))
    graph.merge(1, 3, 5)
    assert graph.paths.across.tolist() == [0, 0, 1, 1, 1, 1, 0]
    graph.merge(0, 1)
    assert graph.paths.across.tolist() == [0, 1, 1, 1, 1, 1, 0]
