"""Computes how many bytes a host function holds at each step, and which buffers to spill from the arena."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.passes.plan_memory.lifetimes import Base
from cuesta.passes.plan_memory.scratch import scratch_bytes
from cuesta.runtime.offsets import Buffer, aligned, live_bytes


def owner_of(base: Base) -> str:
    """ "plan", "caller" or "torch"."""
    return host.Alloc.owner.of(base.value.owner) if base.is_alloc else "torch"


@dataclass
class Timeline:
    """The liveness of every base over the ops of a block, one step each.

    Levels are bytes relative to the start of the call: an argument that the call frees may make a level negative.
    """

    spans: dict[ir.Value, Buffer]
    planned: list[Base]
    #: bytes live in the arena if it holds all of `planned`, by step
    inside: list[int]
    #: the level of memory that torch owns, including calls' scratch, if the arena holds all of `planned`, by step
    outside: list[int]

    @staticmethod
    def of(block: ir.Block, bases: Sequence[Base]) -> Timeline:
        step = {op.operation: i for i, op in enumerate(block.operations)}
        end = len(step) - 1
        for group in host.groups_in(block):  # a launch runs all of them at once
            step.update(dict.fromkeys(group, step[group[-1]]))
        spans = {base.value: base.span(step, end) for base in bases}
        planned = [b for b in bases if owner_of(b) == "plan"]
        outside = [0] * len(step)
        for base in bases:
            span = spans[base.value]
            if base.is_argument:
                _add(outside, span.last + 1, end, -span.nbytes)
            elif owner_of(base) != "plan":
                _add(outside, 0 if owner_of(base) == "caller" else span.first, span.last, span.nbytes)
        for op, at in step.items():
            outside[at] += scratch_bytes(op)
        return Timeline(spans, planned, live_bytes([spans[b.value] for b in planned], len(step)), outside)

    @property
    def levels(self) -> list[int]:
        """The bytes that are live at each step, in the arena and outside of it."""
        return [inside + outside for inside, outside in zip(self.inside, self.outside, strict=True)]

    def peak(self, arena: int, spilled: Iterable[Base]) -> int:
        """The highest level of any step: the arena, which is held throughout, plus memory that torch owns."""
        outside = list(self.outside)
        for base in spilled:
            span = self.spans[base.value]
            _add(outside, span.first, span.last, span.nbytes)
        return arena + max(outside)

    def spill(self, least: int = 0) -> list[Base]:
        """Buffers of `least` bytes or more to spill from the arena, because this lowers the peak.

        The arena is held to the end, so a buffer that is needed only while torch holds little costs
        its bytes later, when torch holds much. First all buffers above some size are spilled, as few as reach
        the lowest peak. Then each of them moves back if that does not raise the peak, because a spilled
        buffer costs a malloc and perhaps page faults.
        The arena's size is estimated as the most bytes live in it, which `place` comes close to.
        """
        large = sorted((b for b in self.planned if b.nbytes >= least), key=lambda b: -b.nbytes)
        moved = _Moved(self.spans, list(self.inside), list(self.outside))
        peaks = [moved.peak()]
        counts = [0]
        for _, group in itertools.groupby(large, key=lambda b: b.nbytes):
            for base in group:
                moved.out(base)
            peaks.append(moved.peak())
            counts.append(len(moved.bases))
        lowest = min(peaks)
        needed = counts[peaks.index(lowest)]
        for base in large[needed:]:
            moved.back(base)
        for base in reversed(large[:needed]):
            moved.back(base)
            if moved.peak() > lowest:
                moved.out(base)
        return [b for b in large if b.value in moved.bases]


@dataclass
class _Moved:
    """The levels while buffers move out of the arena and back."""

    spans: dict[ir.Value, Buffer]
    inside: list[int]
    outside: list[int]

    def __post_init__(self) -> None:
        self.bases: set[ir.Value] = set()

    def out(self, base: Base) -> None:
        self.bases.add(base.value)
        self._move(base, 1)

    def back(self, base: Base) -> None:
        self.bases.remove(base.value)
        self._move(base, -1)

    def peak(self) -> int:
        return max(self.inside) + max(self.outside)

    def _move(self, base: Base, sign: int) -> None:
        span = self.spans[base.value]
        _add(self.inside, span.first, span.last, -sign * aligned(span.nbytes))
        _add(self.outside, span.first, span.last, sign * span.nbytes)


def _add(levels: list[int], first: int, last: int, nbytes: int) -> None:
    for step in range(first, last + 1):
        levels[step] += nbytes
