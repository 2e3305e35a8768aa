"""Reads a host function as boxes and edges: launches with the ops that each kernel fuses, and calls into ATen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects import host
from cuesta.dialects.types import byte_size
from cuesta.lowering.host_to_llvm import host_function
from cuesta.reports.quantities import size_text

#: Arguments that a box names; further ones are counted.
_NAMED_ARGUMENTS = 2
_NAMED_RESULTS = 4


@dataclass
class Step:
    """A box. `sources` are the numbers of the steps whose values the step reads, with a text for each edge."""

    kind: str  # "kernel" or "aten"
    name: str
    #: the torch ops that a kernel fuses
    ops: tuple[str, ...] = ()
    #: the graph's arguments that the step reads
    arguments: tuple[str, ...] = ()
    sources: list[tuple[int, str]] = field(default_factory=list)
    #: the numbers of the graph's results that the step writes
    results: list[int] = field(default_factory=list)
    #: how often the step runs, if it stands for equal steps
    count: int = 1


@dataclass(frozen=True)
class Repeat:
    """The steps first … last stand for `count` equal runs of steps in a row."""

    first: int
    last: int
    count: int


@dataclass
class Steps:
    """The steps of a program in execution order."""

    steps: list[Step]
    repeats: list[Repeat] = field(default_factory=list)


def read_steps(module: ir.Module) -> Steps:
    """The steps of a module at stage kernels."""
    return Steps(_Reader(host_function(module).operation).run())


class _Reader:
    def __init__(self, function: ir.Operation) -> None:
        self.block = function.regions[0].blocks[0]
        self.steps: list[Step] = []
        self.origins: dict[ir.Value, ir.Value] = {}  # view → the memory that it views
        self.writers: dict[ir.Value, list[int]] = {}  # memory → the steps that wrote it
        self.numbers = {value: i for i, value in enumerate(self.block.arguments)}

    def run(self) -> list[Step]:
        for view in self.block.operations:
            op = view.operation
            if host.View.matches(op):
                self._view(op)
            elif host.Launch.matches(op):
                name, ops = host.Launch.kernel.of(op), tuple(host.Launch.ops.find(op) or ())
                self._add(Step("kernel", name, ops), list(op.operands), host.Launch.outputs.of(op))
            elif host.Call.matches(op):
                name = host.Call.overload.of(op).removesuffix(".default")
                outputs = 1 if host.Call.route.of(op) == "out" else 0
                self._add(Step("aten", name), list(op.operands), outputs)
                for result in op.results:
                    self.writers[result] = [len(self.steps) - 1]
            elif host.Check.matches(op):
                (operand,) = op.operands
                for writer in self.writers.get(self.origins.get(operand, operand), ()):
                    step = self.steps[writer]
                    step.arguments += (f"checks for: {host.Check.message.of(op).partition(':')[0]}",)
            elif op.name == "func.return":
                for number, value in enumerate(op.operands):
                    for writer in self.writers.get(self.origins.get(value, value), ()):
                        self.steps[writer].results.append(number)
        return self.steps

    def _view(self, op: ir.Operation) -> None:
        (operand,) = op.operands
        # The arena holds many values, each a view of the arena.
        of_arena = not isinstance(operand.owner, ir.Block) and host.Arena.matches(operand.owner)
        self.origins[op.results[0]] = op.results[0] if of_arena else self.origins.get(operand, operand)

    def _add(self, step: Step, operands: Sequence[ir.Value], outputs: int) -> None:
        number = len(self.steps)
        edges: dict[int, str] = {}
        arguments: dict[str, None] = {}
        written = operands[len(operands) - outputs :]
        for value in operands[: len(operands) - outputs]:
            memory = self.origins.get(value, value)
            for writer in self.writers.get(memory, ()):
                edges[writer] = _describe(value)
            if memory in self.numbers and memory not in self.writers:
                arguments[f"argument {self.numbers[memory]}: {_describe(value)}"] = None
        for value in written:
            memory = self.origins.get(value, value)
            part = _span(value) < _span(memory)
            before = self.writers.get(memory, [])
            if not part:  # written in place, so the step reads what it overwrites
                edges |= {writer: _describe(value) for writer in before}
            self.writers[memory] = [*before, number] if part else [number]
        step.sources = sorted(edges.items())
        step.arguments = _shortened(list(arguments))
        self.steps.append(step)


def results_text(step: Step) -> str:
    """`results 0, 3, 4 and 5 more`."""
    named = ", ".join(map(str, step.results[:_NAMED_RESULTS]))
    more = len(step.results) - _NAMED_RESULTS
    return f"result{'s' if len(step.results) > 1 else ''} {named}" + (f" and {more} more" if more > 0 else "")


def _shortened(arguments: list[str]) -> tuple[str, ...]:
    more = len(arguments) - _NAMED_ARGUMENTS
    return (*arguments[:_NAMED_ARGUMENTS], *([f"and {more} more"] if more > 0 else []))


def _describe(value: ir.Value) -> str:
    """`2x64x768 f32, 384.0 KiB`."""
    kind = ir.MemRefType(value.type)
    sizes = "x".join(map(_size, kind.shape)) or "scalar"
    if any(size < 0 for size in kind.shape):
        return f"{sizes} {kind.element_type}"
    return f"{sizes} {kind.element_type}, {size_text(_span(value))}"


def _size(size: int) -> str:
    return "?" if size < 0 else str(size)


def _span(value: ir.Value) -> int:
    kind = ir.MemRefType(value.type)
    return math.prod(kind.shape) * byte_size(str(kind.element_type))
