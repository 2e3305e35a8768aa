"""Compiles a program's GPU kernels in parallel with its host program.

prepare(target)                                             before the graph is lowered: worker processes start
making = start(module, kernels, target, cache, smaller)     at the tt level: compiling begins
…                                                           the host program is lowered meanwhile
code = making.finish()                                      name → code; rows of `kernels` are filled in
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.cache import Cache
from cuesta.driver.late.late_kernels import describe
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary.kernel import Grid, KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.kernels import warm_up
from cuesta.lowering.tt_to_binary.making import MadeKernel, Smaller, kernels_of, start_kernels
from cuesta.runtime.schema.program import Kernel
from cuesta.targets import Target


@dataclass(frozen=True)
class Making:
    """Kernels that are being compiled."""

    rows: list[Kernel]
    wait: Callable[[], list[MadeKernel]]
    #: kernels that are compiled later, when a call needs them
    late: list[MadeKernel] = field(default_factory=list)

    def finish(self) -> dict[str, bytes]:
        """The code of each kernel; for a late kernel its text. Raises the CompileError of the first kernel that
        fails."""
        made = {kernel.text.name: kernel for kernel in [*self.late, *self.wait()]}
        for row in self.rows:
            kernel = made[row["name"]]
            row["grid"], row["halvings"] = list(kernel.grid), kernel.halvings
            describe(row, kernel.binary)
        return {row["name"]: made[row["name"]].binary.code for row in self.rows}


def prepare(target: Target) -> None:
    """Starts worker processes that load Triton while this one lowers a graph for `target`."""
    if target.gpu and target.kind != "tt":
        # A graph without kernels needs no Triton; for one with kernels, `start` raises the same error.
        with contextlib.suppress(CompileError):
            warm_up(target)


def start(
    module: ir.Module, rows: list[Kernel], target: Target, cache: Cache | None, smaller: Smaller | None
) -> Making:
    """Begins to compile the kernels of a module at the tt level, which `rows` name. `smaller` makes smaller versions of
    kernels that do not fit."""
    kernels = kernels_of(module)
    if target.kind == "tt":
        return Making(rows, lambda: [_as_text(text, grid, text.text.encode()) for text, grid in kernels])
    late = {row["name"] for row in rows if row["late"]}
    waiting = [_as_text(text, grid, text.to_bytes()) for text, grid in kernels if text.name in late]
    now = [(text, grid) for text, grid in kernels if text.name not in late]
    return Making(rows, start_kernels(now, target, cache, smaller).finish, waiting)


def _as_text(text: KernelText, grid: Grid, code: bytes) -> MadeKernel:
    return MadeKernel(text, grid, KernelBinary(text.name, code, 0, text.warps, text.name, None, None))
