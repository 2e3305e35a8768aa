"""Runs kernels of the tt level with numpy, over raw memory, without a GPU and without Triton.

    prepare(function).run((64, 1, 1), [x.data_ptr(), y.data_ptr()])

All programs of the grid run together, op by op, in chunks that bound the memory of intermediate values.
A kernel that uses the old values of its atomics runs program by program, because then the order matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from cuesta._mlir import ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.interpreter import (  # noqa: F401  they register the makers
    arithmetic,
    blocks,
    control,
    device_library,
    memory,
)
from cuesta.dialects.tt.interpreter.program import Builder, Run, Steps, program_ids
from cuesta.dialects.tt.interpreter.values import InterpreterError as InterpreterError
from cuesta.dialects.tt.interpreter.values import OutsideMemory as OutsideMemory
from cuesta.dialects.tt.interpreter.values import register_dtype, spelling

#: Bytes of intermediate values at a time: as many as caches hold, although memory holds more.
CHUNK = 4 << 20


@dataclass(frozen=True)
class Kernel:
    """A prepared kernel. It holds no MLIR objects and no state: it may run any number of times, in any threads."""

    name: str
    steps: Steps
    #: The number of its values.
    values: int
    #: The dtype of each argument.
    arguments: tuple[np.dtype[Any], ...]
    #: The arguments that it writes to.
    written: tuple[int, ...]
    ordered: bool
    #: The number of pointers, which are the first arguments.
    pointers: int

    def run(self, grid: Sequence[int], pointers: Sequence[int], extents: Sequence[int] | None = None) -> None:
        """Runs every program of `grid` (x, y, z). `pointers` are the addresses of the arguments, followed by the scalar
        arguments.

        `extents` is the length of each argument's memory in bytes, 0 for a number; with it, an access outside raises
        OutsideMemory, which names the op, its location and the program.
        """
        if len(pointers) != len(self.arguments):
            raise InterpreterError(f"{self.name} takes {len(self.arguments)} arguments, not {len(pointers)}")
        x, y, z = grid
        ranges = None if extents is None else list(zip(pointers, extents, strict=True))
        arguments = [np.array([p], np.int64).astype(kind) for p, kind in zip(pointers, self.arguments, strict=True)]
        chunk = 1 if self.ordered else max(1, CHUNK // max(self.steps.peak, 1))
        with np.errstate(all="ignore"):
            for start in range(0, prod(grid), chunk):
                ids = program_ids((x, y, z), start, min(start + chunk, prod(grid)))
                self.steps.run(Run([None] * self.values, (x, y, z), ids, ranges), arguments)


def prepare(function: ir.Operation) -> Kernel:
    """Prepares a tt.func for running. Raises InterpreterError for an op that the interpreter does not know."""
    builder = Builder()
    entry = function.regions[0].blocks[0]
    builder.origins = {argument: i for i, argument in enumerate(entry.arguments)}
    steps = builder.block(entry)
    return Kernel(
        name=ops.Func.sym_name.of(function),
        steps=steps,
        values=len(builder.slots),
        arguments=tuple(register_dtype(spelling(argument)) for argument in entry.arguments),
        written=tuple(sorted(builder.written)),
        ordered=builder.ordered,
        pointers=sum(spelling(argument) == "ptr" for argument in entry.arguments),
    )
