"""Prepares a kernel for running: turns its ops into a list of steps over numbered values, without MLIR.

Each kind of op has a maker that reads the op once and returns the step to run. Values are
freed after their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from cuesta._mlir import arith, ir
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.interpreter.values import Array, InterpreterError, held, register_dtype, spelling
from cuesta.dialects.tt.types import shape_of


@dataclass
class Run:
    """The state of one run of some of a grid's programs."""

    #: The kernel's values by number; None for one that is not computed yet, or not needed any more.
    values: list[Array | None]
    grid: tuple[int, int, int]
    #: The index of each program along x, y and z, int32.
    ids: tuple[Array, Array, Array]
    #: (first address, bytes) of each argument's memory, if the caller gave them.
    memory: list[tuple[int, int]] | None
    #: Which programs are active, if control flow has diverged; None: all.
    active: Array | None = None

    @property
    def programs(self) -> int:
        return len(self.ids[0])

    def get(self, slot: int) -> Array:
        found = self.values[slot]
        assert found is not None, "a value was freed before its last use"
        return found


#: Computes the results' arrays from the operands' arrays.
Action: TypeAlias = Callable[[Run, list[Array]], Sequence[Array]]

#: Runs an op on the values of a run.
Execution: TypeAlias = Callable[[Run], None]

Maker: TypeAlias = Callable[["Builder", ir.Operation], Execution]

#: The class of an op, of the tt dialect or of upstream's.
Kind: TypeAlias = type[OpenOp] | type[ir.OpView]

#: The name of an op → its maker.
MAKERS: dict[str, Maker] = {}


def maker(*kinds: Kind) -> Callable[[Maker], Maker]:
    """Registers how ops of these kinds are prepared."""

    def register(make: Maker) -> Maker:
        for kind in kinds:
            assert kind.OPERATION_NAME not in MAKERS, f"two makers of {kind.OPERATION_NAME}"
            MAKERS[kind.OPERATION_NAME] = make
        return make

    return register


def action_maker(*kinds: Kind) -> Callable[[Callable[[ir.Operation], Action]], Callable[[ir.Operation], Action]]:
    """Registers ops that need only their operands' values."""

    def register(make: Callable[[ir.Operation], Action]) -> Callable[[ir.Operation], Action]:
        maker(*kinds)(lambda builder, op: builder.bind(op, make(op)))
        return make

    return register


def elementwise(kind: Kind, compute: Callable[..., Array]) -> None:
    """Registers an op that computes element by element; the result is rounded to its element type."""

    def make(op: ir.Operation) -> Action:
        element = spelling(op.result)
        return lambda run, x: (held(compute(*x), element),)

    action_maker(kind)(make)


@dataclass
class Steps:
    """The ops of a block, its arguments and the values that its terminator yields."""

    arguments: list[int] = field(default_factory=list)
    steps: list[tuple[Execution, list[int]]] = field(default_factory=list)
    yields: list[int] = field(default_factory=list)
    #: The most bytes that one program's values take at a time.
    peak: int = 0

    def run(self, run: Run, arguments: Sequence[Array] = ()) -> list[Array]:
        """Runs the block on its arguments and returns what it yields."""
        for slot, x in zip(self.arguments, arguments, strict=True):
            run.values[slot] = x
        for execute, dead in self.steps:
            execute(run)
            for slot in dead:
                run.values[slot] = None
        return [run.get(slot) for slot in self.yields]


#: Ops whose results share memory or have one element.
_FREE = frozenset(
    kind.OPERATION_NAME
    for kind in (ops.Splat, ops.Broadcast, ops.MakeRange, ops.ExpandDims, ops.Trans, arith.ConstantOp)
)


@dataclass
class Builder:
    """Numbers the values of a kernel and prepares its blocks."""

    slots: dict[ir.Value, int] = field(default_factory=dict)
    #: Pointer → the argument of the kernel that it comes from.
    origins: dict[ir.Value, int] = field(default_factory=dict)
    #: Arguments through which the kernel writes.
    written: set[int] = field(default_factory=set)
    #: Whether the order of the programs affects the results.
    ordered: bool = False

    def slot(self, value: ir.Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def bind(self, op: ir.Operation, action: Action) -> Execution:
        """An execution that applies `action` to the values of the op's operands and stores the op's results."""
        inputs, outputs = [self.slot(v) for v in op.operands], [self.slot(v) for v in op.results]

        def execute(run: Run) -> None:
            for slot, x in zip(outputs, action(run, list(map(run.get, inputs))), strict=True):
                run.values[slot] = x

        return execute

    def block(self, block: ir.Block) -> Steps:
        """Prepares a block and the blocks below it. Raises InterpreterError for an op that has no maker."""
        made = Steps([self.slot(a) for a in block.arguments])
        *body, last = [op.operation for op in block.operations]
        made.yields = [self.slot(v) for v in last.operands]
        dead = _last_uses(body, last)
        live = 0
        for op, values in zip(body, dead, strict=True):
            if op.name not in MAKERS:
                raise InterpreterError(f"the interpreter has no meaning for '{op.name}' at {op.location}")
            inner = self.inner_peak
            self.inner_peak = 0
            self._trace(op)
            made.steps.append((MAKERS[op.name](self, op), [self.slot(v) for v in values]))
            live += sum(map(_bytes, op.results))
            made.peak = max(made.peak, live + self.inner_peak)
            self.inner_peak = max(inner, self.inner_peak)
            live -= sum(map(_bytes, values))
        self.inner_peak = max(self.inner_peak, made.peak)
        return made

    #: The largest `peak` of the blocks prepared since the caller last set this field to 0.
    inner_peak: int = 0

    def _trace(self, op: ir.Operation) -> None:
        """Records which argument a pointer result comes from, if all pointer operands come from the same one."""
        found = [self.origins[v] for v in op.operands if v in self.origins]
        if ops.Store.matches(op) or ops.AtomicRMW.matches(op):
            self.written |= set(found)
        for result in op.results:
            if spelling(result) == "ptr" and len(set(found)) == 1:
                self.origins[result] = found[0]


def _bytes(value: ir.Value) -> int:
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name in _FREE:
        return 0
    size = register_dtype(spelling(value)).itemsize
    for dim in shape_of(value):
        size *= dim
    return size


def _last_uses(body: list[ir.Operation], last: ir.Operation) -> list[list[ir.Value]]:
    """For each op of a block, the values of the block that are dead after the op."""
    own = {result for op in body for result in op.results}
    ends: dict[ir.Value, int] = {}
    for i, op in enumerate(body):
        ends.update((v, i) for v in op.results)
        ends.update((v, i) for v in _used(op) if v in own)
    for v in last.operands:
        ends.pop(v, None)
    dead: list[list[ir.Value]] = [[] for _ in body]
    for value, end in ends.items():
        dead[end].append(value)
    return dead


def _used(op: ir.Operation) -> Iterator[ir.Value]:
    yield from op.operands
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _used(inner.operation)


def program_ids(grid: tuple[int, int, int], start: int, stop: int) -> tuple[Array, Array, Array]:
    """The indices of the programs start … stop - 1; x runs fastest."""
    rest, x = np.divmod(np.arange(start, stop, dtype=np.int64), grid[0])
    z, y = np.divmod(rest, grid[1])
    return x.astype(np.int32), y.astype(np.int32), z.astype(np.int32)
