"""Decides where every buffer lies: in the one arena of the call, or in memory that torch owns.

    %a = host.alloc() {owner = "plan"}           %arena = host.arena() : memref<4096xi8>
    host.launch(%x, %a) {@exp}                   %a = host.view(%arena) {offset = 0}
    %b = host.alloc() {owner = "plan"}     →     host.launch(%x, %a) {@exp}
    host.launch(%a, %b) {@sort}                  %b = host.alloc() {owner = "torch"}
    return %b                                    host.launch(%a, %b) {@sort}
                                                 return %b

What is returned belongs to torch, and is allocated just before its first use; small results are
allocated by the caller (owner "caller"), which takes a third of the time. What torch owns and
nobody returns gets a `host.free` after its last use. The function's `cuesta.memory` says what the
call takes: `arena` and `peak` (arena and torch's allocations of this call at their highest
together), `inputs` (its arguments, not part of the peak), all in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.cuesta.dialect import int_attr
from cuesta.passes.graph_rewrite import functions
from cuesta.passes.plan_memory.allocator import Buffer, live_bytes, place
from cuesta.passes.plan_memory.lifetimes import Base, bases_of, byte_count
from cuesta.passes.registry import Pass, register_pass


@register_pass("plan-memory")
@dataclass(frozen=True)
class PlanMemory(Pass):
    """Places the buffers of host functions."""

    #: Bytes up to which a result is allocated by the caller, who holds it from the start of the call.
    caller_limit: int = 64 << 10
    #: Bytes from which a buffer may move out of the arena, and that the peak must fall by for it.
    spill_limit: int = 1 << 20

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for function in functions(module):
                self._plan(function)

    def _plan(self, function: func.FuncOp) -> None:
        block = function.regions[0].blocks[0]
        bases = bases_of(block)
        for base in bases:
            if base.is_alloc and base.is_returned:
                small = base.nbytes <= self.caller_limit
                base.value.owner.attributes["owner"] = ir.StringAttr.get("caller" if small else "torch")
        timeline = Timeline.of(block, bases)
        spilled = timeline.spill(self.spill_limit)
        planned = [b for b in timeline.planned if b.value not in spilled]
        offsets, arena = place([timeline.spans[b.value] for b in planned])
        peak = timeline.peak(arena, spilled)
        for base in timeline.planned:
            if base.value in spilled:
                base.value.owner.attributes["owner"] = ir.StringAttr.get("torch")
        for base in bases:
            if _owner(base) == "torch":
                _sink(base)
            if _owner(base) == "torch" and not base.is_returned:
                _free(base)
        _fill_arena(block, planned, offsets, arena)
        inputs = sum(byte_count(a.type) for a in block.arguments)
        numbers = {"arena": arena, "peak": peak, "inputs": inputs}
        function.attributes["cuesta.memory"] = ir.DictAttr.get({k: int_attr(v) for k, v in numbers.items()})


@dataclass
class Timeline:
    """The life of every base over the ops of a block, one step each."""

    steps: int
    spans: dict[ir.Value, Buffer]
    planned: list[Base]
    held: list[int]  # bytes that torch owns whatever is decided about `planned`, by step

    @staticmethod
    def of(block: ir.Block, bases: Sequence[Base]) -> Timeline:
        step = {op.operation: i for i, op in enumerate(block.operations)}
        end = len(step) - 1
        spans = {base.value: base.span(step, end) for base in bases}
        held = [0] * len(step)
        for base in bases:
            if _owner(base) == "plan":
                continue
            span = spans[base.value]
            first = 0 if _owner(base) == "caller" else span.first
            for i in range(first, span.last + 1):
                held[i] += span.nbytes
        return Timeline(len(step), spans, [b for b in bases if _owner(b) == "plan"], held)

    def peak(self, arena: int, spilled: set[ir.Value]) -> int:
        """The most bytes at one step: the arena, which stays, and what torch owns at it."""
        moved = live_bytes([self.spans[v] for v in spilled], self.steps)
        return arena + max(map(sum, zip(self.held, moved, strict=True)), default=0)

    def spill(self, limit: int) -> set[ir.Value]:
        """Buffers that the peak is lower without in the arena.

        The arena is held to the end, so a large buffer that is needed only while torch holds little
        costs its bytes later, when torch holds much. Tried: all buffers from some size on; then each
        of them goes back that the peak does not need out, as fresh memory costs page faults.
        The arena's size is taken to be the most bytes live in it, which `place` comes close to.
        """
        large = sorted((b for b in self.planned if b.nbytes >= limit), key=lambda b: b.nbytes)
        best: set[ir.Value] = set()
        lowest = self._estimate(best) - limit
        for size in sorted({b.nbytes for b in large}, reverse=True):
            out = {b.value for b in large if b.nbytes >= size}
            estimate = self._estimate(out)
            if estimate < lowest:
                best, lowest = out, estimate
        for base in large:
            if base.value in best and self._estimate(best - {base.value}) <= lowest:
                best.remove(base.value)
        return best

    def _estimate(self, spilled: set[ir.Value]) -> int:
        inside = [self.spans[b.value] for b in self.planned if b.value not in spilled]
        return self.peak(max(live_bytes(inside, self.steps), default=0), spilled)


def _owner(base: Base) -> str:
    return str(base.value.owner.attributes["owner"].value) if base.is_alloc else "torch"


def _sink(base: Base) -> None:
    """Moves an alloc, and the views that stand before its first use, to just before that use."""
    if not base.is_alloc or not base.users:
        return
    first = base.users[0]
    early = [view for view in base.views if view.is_before_in_block(first)]
    for op in (base.value.owner, *early):
        op.move_before(first)


def _free(base: Base) -> None:
    last = base.users[-1] if base.users else base.value.owner
    with ir.InsertionPoint.after(last), last.location:
        host.FREE([base.value], [])


def _fill_arena(block: ir.Block, planned: Sequence[Base], offsets: Sequence[int], nbytes: int) -> None:
    """Turns each planned alloc into a view of the arena, at its offset."""
    if not planned:
        return
    with ir.InsertionPoint.at_block_begin(block):
        kind = ir.MemRefType.get([nbytes], ir.IntegerType.get_signless(8))
        (arena,) = host.ARENA([], [kind]).results
    for base, offset in zip(planned, offsets, strict=True):
        alloc = base.value.owner
        with ir.InsertionPoint(alloc), alloc.location:
            view = host.VIEW([arena], [base.value.type], offset=int_attr(offset))
        base.value.replace_all_uses_with(view.results[0])
        alloc.erase()
