"""Orders the steps of the host function: a valid order, near the program's or with less memory held.

%a = exp(%x)     %c = sort(%a)              %a = exp(%x)
%b = exp(%y)  →  %d = sort(%b)    becomes   %c = sort(%a)      %a is freed before %b is allocated
                                            %b = exp(%y)
                                            %d = sort(%b)

Large results of small operands, such as the gradient of a linear layer's weight from a few rows, come last. So does a
step that only such a result needs, such as the product that it converts. By then the memory saved for other gradients
has been freed, and only the small operands are held in the meantime. A large value that is made of nothing, such as the
zeros that a scatter adds to, or of arguments that stay in memory anyway, is made right before its first use. So is a
small value that is a part of a large buffer, such as the zeros that pad the rows of a concatenation: with it the whole
buffer becomes live.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import aten
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.types import byte_count
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Item, Node, is_check
from cuesta.passes.form_kernels.placement import plan as placement

Value: TypeAlias = ir.Value
Unit: TypeAlias = Item | Group

#: A step moves to its first use if the buffers that it writes have at least `_LARGE` bytes. It moves to the end if its
#: results have as many, and `_TIMES` the bytes held for it until then.
_LARGE, _TIMES = 1 << 18, 8


@dataclass
class Step:
    """A unit with the steps that it needs and the steps that use it, as indices of steps in program order."""

    unit: Unit
    needs: set[int] = field(default_factory=set)
    users: list[int] = field(default_factory=list)
    #: root that the step makes → bytes that the root takes from here on
    makes: dict[Value, int] = field(default_factory=dict)
    #: bytes of the buffers that the step writes, of which what it makes may be a part
    fills: int = 0
    #: roots that the step reads and that can be freed: values of this function, and donated arguments
    reads: set[Value] = field(default_factory=set)


def schedule(
    items: list[Item],
    grouping: Grouping,
    returned: Collection[Value],
    donated: Collection[Value],
    room: Callable[[Value], int],
    lower_peak: bool = False,
) -> list[Unit]:
    """Items and groups in an order in which everything comes after what it needs: program order, but large results of
    small operands last. `room` gives the bytes of the buffer that a value is written to. With `lower_peak`, an order
    that holds less memory, if one is found."""
    steps = _steps(items, grouping)
    _measure(steps, grouping, room, donated)
    order = _ordered(range(len(steps)), steps, set(), heapq.heappop)
    kept = {alias_root(value) for value in returned}
    last = _coming_last(steps, kept)
    order.sort(key=last.__contains__)
    order = _where_needed(order, steps)
    return [steps[i].unit for i in (_holding_less(order, steps, kept) if lower_peak else order)]


def _coming_last(steps: Sequence[Step], kept: set[Value]) -> set[int]:
    """Steps that make only large results that are returned, from small operands that could be freed earlier, and the
    steps that only they need."""
    maker = {value: i for i, step in enumerate(steps) for value in step.makes}
    last: set[int] = set()
    for i, step in enumerate(steps):
        if step.users or not step.makes.keys() <= kept:
            continue
        if not _is_worth_moving(step.unit, sum(step.makes.values())):
            continue
        before: set[int] = set()
        for value in step.reads & maker.keys():
            before |= _only_for(i, maker[value], steps)
        own = [step, *(steps[j] for j in before)]
        held = {value for part in own for value in part.reads} - {value for part in own for value in part.makes}
        if sum(step.makes.values()) >= _TIMES * sum(map(byte_count, held)):
            last |= {i, *before}
    return last


def _only_for(user: int, i: int, steps: Sequence[Step]) -> set[int]:
    """Step `i` and the views of what it makes, if only `user` needs them and `i` may move; else no step."""
    if not _may_move(steps[i].unit):
        return set()
    found, pending = {i}, list(steps[i].users)
    while pending:
        j = pending.pop()
        if j != user:
            if not _is_view(steps[j].unit) or not steps[j].users:
                return set()
            found.add(j)
            pending += steps[j].users
    return found


def _where_needed(order: Sequence[int], steps: Sequence[Step]) -> list[int]:
    """The order, but a step that makes much of nothing, or of arguments that stay in memory anyway, comes right before
    the first step that needs it, and so do views of what it makes."""
    moved: set[int] = set()
    for i in order:
        step = steps[i]
        holds_nothing = not step.needs and not step.reads and _is_worth_moving(step.unit, step.fills)
        if step.users and (holds_nothing or (_is_view(step.unit) and step.needs and step.needs <= moved)):
            moved.add(i)
    found: dict[int, None] = {}

    def place(i: int) -> None:
        for j in sorted((steps[i].needs & moved) - found.keys()):
            place(j)
        found[i] = None

    for i in order:
        if i not in moved:
            place(i)
    return list(found)


def _is_worth_moving(unit: Unit, nbytes: int) -> bool:
    """Whether a unit may move, and so many bytes begin with it that it should."""
    return nbytes >= _LARGE and _may_move(unit)


def _is_view(unit: Unit) -> bool:
    return isinstance(unit, Item) and unit.op.name in VIEWS


def _may_move(unit: Unit) -> bool:
    """Whether moving a unit is unobservable: random ops draw in order, and ops from outside ATen may do anything."""
    if isinstance(unit, Group):
        return True
    if not aten.Call.matches(unit.op):
        return False
    overload = aten.Call.overload.of(unit.op)
    return overload.startswith("aten.") and not aten.is_random(overload)


def _holding_less(usual: list[int], steps: Sequence[Step], kept: set[Value]) -> list[int]:
    """An order that holds less memory than the usual one, if one is found. Checks stay in place, and steps move only
    between them.

    Greedy: of all steps that are ready, the next is the one that frees most memory, or allocates least.
    """
    found: list[int] = []
    for part in _between_checks(usual, steps):
        found += _ordered(part, steps, set(found), _Greedy(steps, kept, found).pop)
    return min((usual, found), key=lambda order: peak_of(order, steps, kept))


def peak_of(order: Sequence[int], steps: Sequence[Step], kept: Collection[Value]) -> int:
    """The most bytes that are held at once, without the arguments."""
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
    """Picks the ready step that grows memory least."""

    def __init__(self, steps: Sequence[Step], kept: Collection[Value], done: Iterable[int]) -> None:
        self.steps, self.kept = steps, kept
        self.left = _reader_counts(steps)
        self.size = {value: size for step in steps for value, size in step.makes.items()}
        for i in done:
            self._count(i)

    def pop(self, ready: list[int]) -> int:
        """Removes the step that grows memory least from `ready`; among equals, the first in program order."""
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


def _measure(
    steps: Sequence[Step], grouping: Grouping, room: Callable[[Value], int], donated: Collection[Value]
) -> None:
    """Fills in what each step makes and reads, and the bytes of the buffers that it writes."""
    for step in steps:
        unit = step.unit
        made: Sequence[Value] = []
        if isinstance(unit, Group):
            made = placement.outputs_of(unit, grouping)
        elif unit.op.name not in VIEWS:
            made = list(unit.op.results)
        step.makes = {value: byte_count(value) for value in made}
        step.fills = sum(map(room, made))
    held = {value for step in steps for value in step.makes}.union(donated)
    for step in steps:
        step.reads = (_read_by(step.unit) & held) - step.makes.keys()


def _read_by(unit: Unit) -> set[Value]:
    """The roots that a unit reads, including those that it makes itself."""
    found: set[Value] = set()
    for item in unit.members if isinstance(unit, Group) else [unit]:
        if item.op.name in VIEWS:
            continue
        if isinstance(item, Node):
            # The destination of a generic holds no value of the program, so the generic's reads leave it out.
            base = [] if item.base is None else [item.base]
            operands = [*(read.value for read in item.reads), *item.gathers, *base]
        else:
            operands = list(item.op.operands)
        found |= {alias_root(value) for value in operands}
    return found


def _reader_counts(steps: Sequence[Step]) -> dict[Value, int]:
    counts: dict[Value, int] = {}
    for step in steps:
        for value in step.reads:
            counts[value] = counts.get(value, 0) + 1
    return counts


def _between_checks(order: Sequence[int], steps: Sequence[Step]) -> Iterable[list[int]]:
    """Splits an order after each check: a step after a check may rely on it."""
    part: list[int] = []
    for i in order:
        part.append(i)
        unit = steps[i].unit
        if isinstance(unit, Item) and is_check(unit.op):
            yield part
            part = []
    yield part


def _ordered(part: Iterable[int], steps: Sequence[Step], done: set[int], pop: Callable[[list[int]], int]) -> list[int]:
    """`part`, ordered so that each step comes after what it needs. `pop` chooses the next step, by removing it from the
    heap of those that are ready."""
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
    assert len(order) == len(members), "the groups depend on each other in a cycle"
    return order
