"""Puts small launches side by side that do not need one another, so that one launch can run them.

    host.launch(%x, %wq, %q) {@mm}               host.launch(%x, %wq, %q) {@mm, together = 0}
    host.launch(%q, %s) {@silu}            →     host.launch(%x, %wk, %k) {@mm_2, together = 0}
    host.launch(%x, %wk, %k) {@mm_2}             host.launch(%q, %s) {@silu}

A launch takes a GPU a microsecond or two, however little it does: its programs begin, wait for their first loads, and
the next kernel waits until all they wrote can be seen. plan-memory takes a group as one step, and join-launches makes
one kernel of its members, once their programs are known. Only launches of few bytes are moved: others take far longer
than what is saved. A launch that is the first to write an allocation moves only if the call's memory has room for the
allocation from there on: 30 launches that fill the padding of 20 MB each would have 600 MB in memory at once. Launches
that write parts of one tensor, as of a concatenation, do not need one another if the parts lie apart.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.graph_function import donated_arguments
from cuesta.dialects.kernel_module import kernel_modules, launch_parameters, launched_kernels
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import FACTOR, tile_of
from cuesta.passes.analysis.memory_parts import Parts
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.plan_memory.lifetimes import bases_of, byte_count
from cuesta.passes.plan_memory.timeline import Timeline
from cuesta.policy.few_rows import FEW_ROWS

#: The most bytes that a launch in a group reads and writes together, and the most that it writes.
_MOST, _MOST_WRITTEN = 16 << 20, 4 << 20
#: A call may hold this many bytes even if it held fewer before launches moved.
_SMALL_CALL = 1 << 20
#: The most by which the bytes of two launches of a group may differ: they would have other numbers of warps.
_LIKE = 64
#: The most launches of a group, the same if all are of one kernel, and the most groups that one may still join: the
#: latest. A program finds its member by as many comparisons.
_MEMBERS, _ALIKE, _OPEN = 8, 32, 8
_PASSED_OVER = {op.OPERATION_NAME for op in (host.View, host.Alloc)}


@register_pass("group-launches")
class GroupLaunches(Pass):
    """Puts small launches that are independent of each other side by side."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            kernels = dict(_kernels(module))
            heights = {name: _height(kernel) for name, kernel in kernels.items()}
            scatters = {name for name, kernel in kernels.items() if _scatters(kernel)}
            for function in functions(module):
                _group(function.regions[0].blocks[0], donated_arguments(function), heights, scatters)


def _kernels(module: ir.Module) -> Iterator[tuple[str, func.FuncOp]]:
    for nested in kernel_modules(module):
        for kernel in functions(nested):
            yield kernel.name.value, kernel


def _height(kernel: func.FuncOp) -> float:
    """The rows of the blocks that a kernel multiplies: 0 for one that multiplies none, and more than any for one whose
    product has a factor that it computes."""
    ops = [view.operation for view in kernel.regions[0].blocks[0].operations]
    products = [op for op in ops if is_generic(op) and tile_of(op) is not None]
    if any(FACTOR.is_on(op) for op in products):
        return math.inf
    return max((tile.m for op in products if (tile := tile_of(op)) is not None), default=0)


def _scatters(kernel: func.FuncOp) -> bool:
    """Whether a kernel writes some elements of its result alone, such as a token's keys to a cache."""
    return any(is_scatter(view.operation) for view in kernel.regions[0].blocks[0].operations)


@dataclass(eq=False)
class _Group:
    """Launches side by side, and what is touched from the first of them to the end of what was looked at."""

    members: list[ir.Operation]
    #: How many ops are before it.
    place: int
    #: The bytes of the first member, and whether it multiplies blocks.
    bytes: int
    multiplies: bool
    touched: _Touched = field(default_factory=lambda: _Touched(Parts(), Parts()))

    def takes(self, op: ir.Operation, touched: _Touched, size: int, multiplies: bool) -> bool:
        """Whether a launch of so many bytes may move up to the group: nothing since uses what it writes, or makes what
        it needs."""
        return (
            len(self.members) < (_ALIKE if self._is_all(host.Launch.kernel.of(op)) else _MEMBERS)
            and multiplies == self.multiplies
            and size <= self.bytes * _LIKE
            and self.bytes <= size * _LIKE
            and not touched.needs(self.touched)
        )

    def _is_all(self, kernel: str) -> bool:
        """Whether all members launch this kernel."""
        return all(host.Launch.kernel.of(member) == kernel for member in self.members)


@dataclass(frozen=True)
class _Touched:
    """The memory that ops read and write."""

    read: Parts
    written: Parts

    @staticmethod
    def of(op: ir.Operation) -> _Touched:
        operands = list(op.operands)
        if host.Launch.matches(op):
            outputs = host.Launch.outputs.of(op)
            return _Touched(Parts.of(operands[:-outputs]), Parts.of(operands[-outputs:]))
        return _Touched(Parts.of(operands), Parts.of([*operands, *op.results]))  # a call may write any of them

    def needs(self, earlier: _Touched) -> bool:
        """Whether ops that touch this may not move above those that touched `earlier`."""
        return self.written.meet(earlier.read) or self.written.meet(earlier.written) or self.read.meet(earlier.written)

    def add(self, others: _Touched) -> None:
        self.read.add(others.read)
        self.written.add(others.written)


@dataclass
class _Room:
    """How much memory is left for allocations that begin earlier."""

    #: the bytes of the call's own memory that are live at each place, less those of the arguments that it has freed
    held: list[int]
    #: the most that `held` may become
    most: int
    #: An allocation → its bytes, and the place from which it is held.
    begun: dict[ir.Value, tuple[int, int]]

    @staticmethod
    def of(block: ir.Block, donated: Sequence[ir.Value]) -> _Room:
        bases = bases_of(block, donated)
        timeline = Timeline.of(block, bases)
        begun = {base.value: (base.nbytes, timeline.spans[base.value].first) for base in bases if base.is_alloc}
        return _Room(timeline.levels, max(*timeline.levels, _SMALL_CALL), begun)

    def is_for(self, written: Parts, place: int) -> bool:
        """Whether the allocations of `written` may all be held from `place` on."""
        later = self._later(written, place)
        added = sum(nbytes for nbytes, _ in later.values())
        return not later or max(self.held[place : max(first for _, first in later.values())]) + added <= self.most

    def hold(self, written: Parts, place: int) -> None:
        """Notes that the allocations of `written` are held from `place` on."""
        for base, (nbytes, first) in self._later(written, place).items():
            for at in range(place, first):
                self.held[at] += nbytes
            self.begun[base] = nbytes, place

    def _later(self, written: Parts, place: int) -> dict[ir.Value, tuple[int, int]]:
        """The allocations of `written` that are not held at `place` yet. Arguments and results of calls are in memory
        anyway."""
        return {base: self.begun[base] for base in written.found if self.begun.get(base, (0, place))[1] > place}


def _group(
    block: ir.Block, donated: Sequence[ir.Value], heights: Mapping[str, float], scatters: Collection[str]
) -> None:
    opened: list[_Group] = []
    groups: list[_Group] = []
    room = _Room.of(block, donated)
    for place, op in enumerate([view.operation for view in block.operations]):
        if op.name in _PASSED_OVER or op.name == func.ReturnOp.OPERATION_NAME:
            continue
        if not (host.Launch.matches(op) or host.Call.matches(op)):
            opened = []  # a check may end the call, and memory may be freed
            continue
        touched = _Touched.of(op)
        height = heights.get(host.Launch.kernel.of(op), 0) if host.Launch.matches(op) else math.inf
        size = _small_bytes(op, scatters) if height <= FEW_ROWS else None
        multiplies = height > 0
        taking = [group for group in opened if size is not None and group.takes(op, touched, size, multiplies)]
        taking = [group for group in taking if room.is_for(touched.written, group.place)]
        # The group whose first launch is most alike is the likeliest to have the same number of warps.
        chosen = min(taking, key=lambda group: abs(math.log((size or 1) / group.bytes)), default=None)
        if chosen is not None:
            room.hold(touched.written, chosen.place)
            _move_behind(op, chosen.members[-1])
            chosen.members.append(op)
        elif size is not None:
            groups.append(_Group([op], place, size, multiplies))
            opened = [*opened[1 - _OPEN :], groups[-1]]
        # A launch that moved up to a group is before the groups that were opened later.
        for group in opened if chosen is None else opened[: opened.index(chosen) + 1]:
            group.touched.add(touched)
    for number, group in enumerate(group for group in groups if len(group.members) > 1):
        for op in group.members:
            host.Launch.together.put(op, number)


def _small_bytes(op: ir.Operation, scatters: Collection[str]) -> int | None:
    """The bytes of a launch that may be in a group: of one kernel of known sizes that touches few bytes. None for
    others. A kernel of `scatters` touches no more of its results than it reads."""
    names = launched_kernels(op)
    if len(names) > 1 or launch_parameters(op) or host.Launch.extents.is_on(op):
        return None
    sizes = [size for x in op.operands if isinstance(size := byte_count(x.type), int)]
    outputs = host.Launch.outputs.of(op)
    if len(sizes) == len(op.operands) and names[0] in scatters:
        sizes = [*sizes[:-outputs], sum(sizes[:-outputs])]
    elif len(sizes) < len(op.operands) or sum(sizes[-outputs:]) > _MOST_WRITTEN:
        return None
    return max(sum(sizes), 1) if sum(sizes) <= _MOST else None


def _move_behind(op: ir.Operation, member: ir.Operation) -> None:
    """Moves a launch behind a member of a group, and the views and allocations of its operands before it."""
    op.move_after(member)
    pending = list(op.operands)
    first = op
    while pending:
        value = pending.pop()
        maker = value.owner
        if isinstance(maker, ir.Block) or maker.is_before_in_block(first):
            continue
        maker.move_before(first)
        first = maker
        pending += maker.operands
