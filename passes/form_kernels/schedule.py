"""In which order the host function computes what it has: valid, and near the program's or with less memory held.

%a = exp(%x)     %c = sort(%a)              %a = exp(%x)
%b = exp(%y)  →  %d = sort(%b)    becomes   %c = sort(%a)      %a is given back before there is %b
                                            %b = exp(%y)
                                            %d = sort(%b)

Large results of little, such as the gradient of a linear layer's weight from a few rows, come last: what is saved for
other gradients has been given back by then, and the little that they are made of is held instead.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.aten import is_random
from cuesta.dialects.types import byte_count
from cuesta.passes.analysis.aliases import VIEWS, root_of
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Item, Node, is_check
from cuesta.passes.form_kernels.placement import plan as placement

Value: TypeAlias = ir.Value
Unit: TypeAlias = Item | Group

#: Bytes of a result from which on it may come last, and how many times those that are held for it until then.
_LARGE, _TIMES = 1 << 18, 8


@dataclass
class Step:
    """A unit, and what it needs and leaves, each by the unit's place in program order."""

    unit: Unit
    needs: set[int] = field(default_factory=set)
    users: list[int] = field(default_factory=list)
    #: root → bytes that it takes from here on
    makes: dict[Value, int] = field(default_factory=dict)
    #: roots that it reads and that can be given back: this function's, and donated arguments
    reads: set[Value] = field(default_factory=set)


def schedule(
    items: list[Item],
    grouping: Grouping,
    returned: Collection[Value],
    donated: Collection[Value],
    lower_peak: bool = False,
) -> list[Unit]:
    """Items and groups so that everything comes after what it needs, large results of little last, else in program
    order; or with `lower_peak` in one that holds less memory, where one is found."""
    steps = _steps(items, grouping)
    _measure(steps, grouping, set(returned), donated)
    order = _ordered(range(len(steps)), steps, set(), heapq.heappop)
    kept = {root_of(value) for value in returned}
    order.sort(key=lambda i: _comes_last(steps[i], kept))
    return [steps[i].unit for i in (_holding_less(order, steps, kept) if lower_peak else order)]


def _comes_last(step: Step, kept: set[Value]) -> bool:
    """Whether a step makes large results alone, of little that could be given back before."""
    made = sum(step.makes.values())
    if step.users or made < _LARGE or not step.makes.keys() <= kept or not _may_move(step.unit):
        return False
    return made >= _TIMES * sum(map(byte_count, step.reads))


def _may_move(unit: Unit) -> bool:
    """Whether nobody can tell when it is computed: random numbers have an order, and what others' ops do is unknown."""
    if isinstance(unit, Group):
        return True
    if unit.op.name != "aten.call":
        return False
    overload = unit.op.attributes["overload"].value
    return overload.startswith("aten.") and not is_random(overload)


def _holding_less(usual: list[int], steps: Sequence[Step], kept: set[Value]) -> list[int]:
    """An order that holds less memory than the usual one, where one is found; between checks, which stay in place.

    Each time that comes next of all that can which lets go of most, or takes least.
    """
    found: list[int] = []
    for part in _between_checks(usual, steps):
        found += _ordered(part, steps, set(found), _Greedy(steps, kept, found).pop)
    return min((usual, found), key=lambda order: peak_of(order, steps, kept))


def peak_of(order: Sequence[int], steps: Sequence[Step], kept: Collection[Value]) -> int:
    """The most bytes that are held at once, arguments aside."""
    left = _reader_counts(steps)
    held: dict[Value, int] = {}
    peak = 0
    for i in order:
        held.update(steps[i].makes)
        peak = max(peak, sum(held.values()))
        for value in steps[i].reads:
            left[value] -= 1
        for value in (*steps[i].reads, *steps[i].makes):
            if left.get(value, 0) == 0 and value not in kept:
                held.pop(value, None)
    return peak


class _Greedy:
    """Prefers what leaves least behind."""

    def __init__(self, steps: Sequence[Step], kept: Collection[Value], done: Iterable[int]) -> None:
        self.steps, self.kept = steps, kept
        self.left = _reader_counts(steps)
        self.size = {value: size for step in steps for value, size in step.makes.items()}
        for i in done:
            self._count(i)

    def pop(self, ready: list[int]) -> int:
        """Takes the one that grows memory least out of `ready`, the first in program order among equals."""
        best = min(ready, key=lambda i: (self._growth(i), i))
        ready.remove(best)
        self._count(best)
        return best

    def _growth(self, i: int) -> int:
        step = self.steps[i]
        freed = sum(self.size.get(v, 0) for v in step.reads if self.left[v] == 1 and v not in self.kept)
        return sum(step.makes.values()) - freed

    def _count(self, i: int) -> None:
        for value in self.steps[i].reads:
            self.left[value] -= 1


def _steps(items: list[Item], grouping: Grouping) -> list[Step]:
    unit_of = {i.index: id(grouping.group.get(i.index, i)) for i in items}
    place: dict[int, int] = {}
    steps: list[Step] = []
    for item in items:
        if unit_of[item.index] not in place:
            place[unit_of[item.index]] = len(steps)
            steps.append(Step(grouping.group.get(item.index, item)))
    for item in items:
        own = place[unit_of[item.index]]
        steps[own].needs |= {place[unit_of[s]] for s in item.sources} - {own}
    for i, step in enumerate(steps):
        for source in step.needs:
            steps[source].users.append(i)
    return steps


def _measure(steps: Sequence[Step], grouping: Grouping, returned: set[Value], donated: Collection[Value]) -> None:
    """Fills in what each step makes and reads."""
    for step in steps:
        unit = step.unit
        made: Sequence[Value] = []
        if isinstance(unit, Group):
            made = placement.outputs_of(unit, grouping, returned)
        elif unit.op.name not in VIEWS:
            made = list(unit.op.results)
        step.makes = {value: byte_count(value) for value in made}
    held = {value for step in steps for value in step.makes}.union(donated)
    for step in steps:
        step.reads = (_read_by(step.unit) & held) - step.makes.keys()


def _read_by(unit: Unit) -> set[Value]:
    """The roots that a unit reads, those that it makes itself among them."""
    found: set[Value] = set()
    for item in unit.members if isinstance(unit, Group) else [unit]:
        if item.op.name in VIEWS:
            continue
        if isinstance(item, Node):
            # What a generic writes to is no operand of the program's.
            base = [] if item.base is None else [item.base]
            operands = [*(read.value for read in item.reads), *item.gathers, *base]
        else:
            operands = list(item.op.operands)
        found |= {root_of(value) for value in operands}
    return found


def _reader_counts(steps: Sequence[Step]) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for step in steps:
        for value in step.reads:
            counts[value] = counts.get(value, 0) + 1
    return counts


def _between_checks(order: Sequence[int], steps: Sequence[Step]) -> Iterable[list[int]]:
    """The parts of an order that checks end: what follows one may rely on it."""
    part: list[int] = []
    for i in order:
        part.append(i)
        unit = steps[i].unit
        if isinstance(unit, Item) and is_check(unit.op):
            yield part
            part = []
    yield part


def _ordered(part: Iterable[int], steps: Sequence[Step], done: set[int], pop: Callable[[list[int]], int]) -> list[int]:
    """`part` so that each step comes after what it needs; which of those that can come next, `pop` says: it takes one
    out of a heap of them."""
    members = set(part)
    missing = {i: len(steps[i].needs - done) for i in members}
    ready = sorted(i for i, n in missing.items() if n == 0)
    order = []
    while ready:
        step = pop(ready)
        order.append(step)
        for user in steps[step].users:
            if user in members:
                missing[user] -= 1
                if missing[user] == 0:
                    heapq.heappush(ready, user)
    assert len(order) == len(members), "the groups depend on one another in a circle"
    return order
