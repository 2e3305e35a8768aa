"""Decides where every buffer is stored: in the one arena of the call, or in memory that torch owns.

    %a = host.alloc() {owner = "plan"}           %arena = host.arena() : memref<4096xi8>
    host.launch(%x, %a) {@exp}                   %a = host.view(%arena) {offset = 0}
    %b = host.alloc() {owner = "plan"}     →     host.launch(%x, %a) {@exp}
    host.launch(%a, %b) {@sort}                  %b = host.alloc() {owner = "torch"}
    return %b                                    host.launch(%a, %b) {@sort}
                                                 return %b

A returned buffer belongs to torch and is allocated just before its first use. Small results of short
calls are allocated by the caller (owner "caller"), which takes a third of the time. Memory that torch owns and
the function does not return gets a `host.free` after its last use. So does an argument that the call owns
(`cuesta.donated` among its attributes), except for a few small ones. The function's `cuesta.memory` states
the call's memory in bytes: `arena`; `peak`, the highest level of arena and torch's allocations, relative to the
start of the call; `kept`, the level of torch's allocations at its end; `inputs`, its arguments, which are not part
of the peak.

If the size of a buffer depends on the call, so do the offsets, which are then symbols a0, a1, … The runtime computes
them for the sizes of a call, in the same way as this pass, from the function's `cuesta.buffers`: bytes, first and last
step of each buffer. Everything else is decided by the sizes of the traced call.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.graph_function import BUFFERS, MEMORY, donated_arguments
from cuesta.dialects.types import memref
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.plan_memory.lifetimes import Base, bases_of, byte_count
from cuesta.passes.plan_memory.timeline import Timeline, owner_of
from cuesta.runtime.offsets import place
from cuesta.sizes import Number, Size, hint, symbol


@register_pass("plan-memory")
@dataclass(frozen=True)
class PlanMemory(Pass):
    """Places the buffers of host functions."""

    #: Most bytes of a result that the caller allocates, who holds it from the start of the call.
    caller_limit: int = 64 << 10
    #: Most bytes of all buffers together in a small call, which is so short that every malloc shows: no buffer is
    #: spilled from the arena, and the caller allocates small results.
    small_call: int = 1 << 20
    #: Least bytes of a buffer that may be spilled from the arena if that lowers the peak; each spill costs a malloc.
    spill_from: int = 0
    #: Least bytes of an argument owned by the call that is freed before the call's end. If the call is not small,
    #: smaller arguments that exceed this together are freed too: a recurrent network saves some hundred states.
    release_limit: int = 16 << 10
    #: Whether the caller allocates every returned buffer, so that it can check the memory around the buffer.
    guarded: bool = False

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for function in functions(module):
                self._plan(function)

    def _plan(self, function: func.FuncOp) -> None:
        block = function.regions[0].blocks[0]
        bases = bases_of(block, donated_arguments(function))
        is_small = sum(base.nbytes for base in bases if not base.is_argument) <= self.small_call
        staying = self._staying([base for base in bases if base.is_argument], is_small)
        bases = [base for base in bases if base.value not in staying]
        for base in bases:
            if base.is_alloc and base.is_returned:
                small = self.guarded or (is_small and base.nbytes <= self.caller_limit)
                host.Alloc.owner.put(base.value.owner, "caller" if small else "torch")
        bases = [b for b in bases if not (b.is_argument and b.is_returned)]
        timeline = Timeline.of(block, bases)
        spilled = [] if is_small else timeline.spill(self.spill_from)
        apart = {base.value for base in spilled}
        planned = [b for b in timeline.planned if b.value not in apart]
        offsets, arena = place([timeline.spans[b.value] for b in planned])
        memory = {
            "arena": arena,
            "peak": timeline.peak(arena, spilled),
            "kept": timeline.outside[-1],
            "inputs": sum(hint(byte_count(a.type)) for a in block.arguments),
        }
        MEMORY.put(function, memory)
        for base in spilled:
            host.Alloc.owner.put(base.value.owner, "torch")
        groups = {op: group for group in host.groups_in(block) for op in group}
        for base in bases:
            if owner_of(base) == "torch":
                _sink(base, groups)
            if owner_of(base) == "torch" and not base.is_returned:
                _free(base, block, groups)
        if any(isinstance(b.size, Size) for b in planned):
            spans = [(b.size, timeline.spans[b.value]) for b in planned]
            BUFFERS.put(function, [[size, span.first, span.last] for size, span in spans])
            _fill_arena(block, planned, [symbol(f"a{i}") for i in range(len(planned))], symbol("arena"))
        else:
            _fill_arena(block, planned, offsets, arena)

    def _staying(self, owned: Sequence[Base], is_small: bool) -> set[ir.Value]:
        """The arguments owned by the call that are not worth freeing before its end."""
        small = sorted((base for base in owned if base.nbytes < self.release_limit), key=lambda base: base.nbytes)
        together = itertools.accumulate(base.nbytes for base in small)
        return {
            base.value for base, total in zip(small, together, strict=True) if is_small or total <= self.release_limit
        }


def _sink(base: Base, groups: dict[ir.Operation, list[ir.Operation]]) -> None:
    """Moves an alloc, and those of its views that precede its first use, to just before that use, or before the group
    of launches that it is in."""
    if not base.is_alloc or not base.users:
        return
    first = groups.get(base.users[0], base.users)[0]
    early = [view for view in base.views if view.is_before_in_block(first)]
    for op in (base.value.owner, *early):
        op.move_before(first)


def _free(base: Base, block: ir.Block, groups: dict[ir.Operation, list[ir.Operation]]) -> None:
    """Frees memory behind its last use, or behind the group of launches that it is in."""
    if base.is_argument and not base.users:
        with ir.InsertionPoint.at_block_begin(block):
            host.Free.build([base.value])
        return
    last = base.users[-1] if base.users else base.value.owner
    last = groups.get(last, [last])[-1]
    with ir.InsertionPoint.after(last), last.location:
        host.Free.build([base.value])


def _fill_arena(block: ir.Block, planned: Sequence[Base], offsets: Sequence[Number], nbytes: Number) -> None:
    """Turns each planned alloc into a view of the arena, at its offset."""
    if not planned:
        return
    with ir.InsertionPoint.at_block_begin(block):
        (arena,) = host.Arena.build([], [memref([nbytes], None, "i8")]).results
    for base, offset in zip(planned, offsets, strict=True):
        alloc = base.value.owner
        with ir.InsertionPoint(alloc), alloc.location:
            view = host.View.build([arena], [base.value.type], offset=offset)
        base.value.replace_all_uses_with(view.results[0])
        alloc.erase()
