"""The code of a program's kernels on a GPU, made beside its host program.

prepare(target)                                             before the graph is lowered: worker processes start
making = start(module, kernels, target, cache, smaller)     at the tt level: they begin
…                                                           the host program is lowered meanwhile
code = making.finish()                                      name → code; rows of `kernels` are filled in
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import ir
from cuesta.cache import Cache
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.kernels import warm_up
from cuesta.lowering.tt_to_binary.making import MadeKernel, Smaller, start_kernels
from cuesta.lowering.tt_to_binary.texts import kernel_grids, kernel_texts
from cuesta.targets import Target


@dataclass(frozen=True)
class Making:
    """Kernels on their way."""

    rows: list[dict[str, Any]]
    wait: Callable[[], list[MadeKernel]]

    def finish(self) -> dict[str, bytes]:
        """The code of each kernel. Raises the CompileError of the first that has none."""
        made = {kernel.text.name: kernel for kernel in self.wait()}
        for row in self.rows:
            kernel = made[row["name"]]
            binary = kernel.binary
            row |= {"grid": list(kernel.grid), "warps": binary.warps, "shared": binary.shared, "symbol": binary.symbol}
            row |= {"registers": binary.registers, "spills": binary.spills, "halvings": kernel.halvings}
        return {row["name"]: made[row["name"]].binary.code for row in self.rows}


def prepare(target: Target) -> None:
    """Has Triton load in worker processes while this one lowers a graph for `target`."""
    if target.gpu and target.kind != "tt":
        # A graph that has no kernels needs no Triton; for one that has, `start` raises the same.
        with contextlib.suppress(CompileError):
            warm_up(target)


def start(
    module: ir.Module, rows: list[dict[str, Any]], target: Target, cache: Cache | None, smaller: Smaller | None
) -> Making:
    """Begins to make the kernels of a module at the tt level, which `rows` name; `smaller` is for those too large."""
    if target.kind == "tt":
        kernels = list(zip(kernel_texts(module), kernel_grids(module), strict=True))
        return Making(rows, lambda: [MadeKernel(text, grid, _interpreted(text)) for text, grid in kernels])
    return Making(rows, start_kernels(module, target, cache, smaller).finish)


def _interpreted(text: KernelText) -> KernelBinary:
    return KernelBinary(text.name, text.text.encode(), 0, text.warps, text.name, None, None)
