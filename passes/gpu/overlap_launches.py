"""Lets kernels begin before those in front of them have ended: NVIDIA's programmatic dependent launch.

    tt.func @mm(%x, %weight, %y)                     tt.func @mm(%x, %weight, %y)
      %0 = tt.load %x + …                              %1 = tt.load %weight + …
      %1 = tt.load %weight + …                  →      griddepcontrol.wait
                                                       griddepcontrol.launch_dependents
    host.launch(…) {kernel = @first}                   %0 = tt.load %x + …
    host.launch(%x, %weight, %y) {kernel = @mm}
                                                     host.launch(…) {kernel = @first}
                                                     host.launch(%x, %weight, %y) {kernel = @mm, overlaps}

Between two kernels a GPU has nothing to do for a microsecond or so: the last programs of one end, the next is
launched, its programs compute addresses and wait for their first loads. With this a kernel is in place as soon as all
programs of the one in front are past their wait, loads what nobody writes during the call, such as weights, and waits
there until the kernel in front has ended. As every kernel waits, a kernel that has ended has none before it that has
not. No kernel lets the next begin before its own wait: else a chain of small kernels would all be in place at once, and
share the multiprocessors unevenly (decision 54).

A kernel whose programs do not all run at once loads nothing early: only the first of them would gain by it. If they are
short as well, the kernel does not overlap: the two instructions take each of them about a microsecond longer. A weight
of 8192x2048 that 16384 programs unpack took 20 µs on an H200 with them, 12 without.

The first launch of a program does not overlap: what runs before the call may write anything. GPUs below capability 9.0
lack the instructions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from cuesta._mlir import arith, ir
from cuesta.dialects import host, ops_named, tt
from cuesta.dialects.kernel_fields import GRID, WARPS
from cuesta.dialects.kernel_module import kernel_modules, launched_kernels
from cuesta.dialects.top_module import target_of
from cuesta.dialects.tt.instructions import LET_NEXT_BEGIN, WAIT, instruction
from cuesta.dialects.types import byte_size
from cuesta.dialects.upstream_fields import SYM_NAME
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.targets import Target

#: The lowest capability with the instructions.
_CAPABILITY = 90
#: The most bytes that a thread loads early: they stay in registers. Two weights of bytes take so many, with a norm's.
_MOST_EARLY = 384
#: The most warps that the multiprocessors of an H200 hold at once, and the bytes below which a program is short.
_AT_ONCE, _SHORT = 132 * 64, 8192
_MEMORY = {op.OPERATION_NAME for op in (tt.Load, tt.Store, tt.AtomicRMW)}
_THREADS = 32


@register_pass("overlap-launches")
class OverlapLaunches(Pass):
    """Lets kernels begin before those in front of them have ended."""

    def run(self, module: ir.Module) -> None:
        if not _has_instructions(target_of(module)):
            return
        with module.context, ir.Location.unknown():
            constant: dict[str, set[int]] = {}
            ops = [view.operation for nested in kernel_modules(module) for view in nested.body.operations]
            kernels = {SYM_NAME.of(op): op for op in ops if tt.Func.matches(op)}
            short = {name for name, op in kernels.items() if not _runs_at_once(op) and _moved(op) < _SHORT}
            for function in functions(module):
                _mark(function.regions[0].blocks[0], constant, short)
            for name, op in kernels.items():
                if name in constant and name not in short:
                    _wait(op, constant[name])


def _has_instructions(target: Target) -> bool:
    return target.kind == "cuda" and int(target.arch) >= _CAPABILITY


def _mark(block: ir.Block, constant: dict[str, set[int]], short: Collection[str]) -> None:
    """Marks the launches of a host function, except the first and those that may run a kernel in `short`, which does
    not wait. Enters for each kernel the operands that no launch or call writes in any of its launches."""
    ops = [view.operation for view in block.operations]
    launches = [op for op in ops if host.Launch.matches(op)]
    if len(launches) == 1:
        return  # nothing overlaps
    written = {host.base_of(x)[0] for op in ops for x in _may_write(op)}
    for launch in launches:
        roots = [host.base_of(x)[0] for x in launch.operands]
        kept = {i for i, root in enumerate(roots) if isinstance(root.owner, ir.Block) and root not in written}
        for kernel in launched_kernels(launch):
            constant[kernel] = constant.get(kernel, kept) & kept
    for launch in launches[1:]:
        if not any(kernel in short for kernel in launched_kernels(launch)):
            host.Launch.overlaps.mark(launch)


def _may_write(op: ir.Operation) -> Iterable[ir.Value]:
    """The operands that an op of a host function may write: those of a call, any of them."""
    operands = list(op.operands)
    if host.View.matches(op):
        return []
    return operands[-host.Launch.outputs.of(op) :] if host.Launch.matches(op) else operands


def _wait(kernel: ir.Operation, constant: set[int]) -> None:
    """Writes a kernel's two instructions behind its loads from arguments that are `constant`."""
    block = kernel.regions[0].blocks[0]
    ops = [view.operation for view in block.operations]
    early = _early(ops, constant, WARPS.of(kernel) * _THREADS) if _runs_at_once(kernel) else set()
    with ir.InsertionPoint.at_block_begin(block):
        wait = instruction(WAIT)
        instruction(LET_NEXT_BEGIN)
    for op in ops:
        if op in early:
            op.move_before(wait)


def _runs_at_once(kernel: ir.Operation) -> bool:
    """Whether all programs of a kernel run at once; those of a number that only a launch determines count as such."""
    grid = GRID.find(kernel) or ()
    return math.prod(n for n in grid if isinstance(n, int)) * WARPS.of(kernel) <= _AT_ONCE


def _moved(kernel: ir.Operation) -> int:
    """The bytes of all blocks that a program loads and stores, each once: some are stored in two parts."""
    blocks = {
        op.operands[0]: op.operands[1] if tt.Store.matches(op) else op.result for op in ops_named(kernel, _MEMORY)
    }
    return sum(map(_bytes, blocks.values()))


def _early(ops: list[ir.Operation], constant: set[int], threads: int) -> set[ir.Operation]:
    """The loads that need no other kernel's results, and what computes their addresses; in order, as many as fit."""
    early: set[ir.Operation] = set()
    left = _MOST_EARLY * threads
    for op in ops:
        if not tt.Load.matches(op) or _argument(op.operands[0]) not in constant:
            continue
        size = _bytes(op.result)
        sources = {source for x in op.operands for source in _sources(x)}
        if size > left or any(source.name in _MEMORY or len(source.regions) for source in sources - early):
            continue
        left -= size
        early |= {op, *sources}
    return early


def _sources(value: ir.Value) -> Iterator[ir.Operation]:
    """The ops of a kernel's block that a value is computed from."""
    pending, seen = [value], set()
    while pending:
        x = pending.pop()
        if isinstance(x.owner, ir.Block) or x.owner in seen:
            continue
        seen.add(x.owner)
        yield x.owner
        pending += x.owner.operands


def _argument(pointer: ir.Value) -> int | None:
    """The number of the argument that a pointer points into; None if that is not known."""
    while not isinstance(pointer.owner, ir.Block):
        if pointer.owner.name == arith.SelectOp.OPERATION_NAME or not len(pointer.owner.operands):
            return None
        pointer = pointer.owner.operands[0]
    return ir.BlockArgument(pointer).arg_number


def _bytes(block: ir.Value) -> int:
    kind = block.type
    count = 1
    for size in tt.shape_of(kind):
        count *= size
    return count * byte_size(str(tt.element_of(kind)))
