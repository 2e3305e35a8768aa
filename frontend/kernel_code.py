"""The code of a program's kernels on a GPU, made beside its host program.

making = start(module, kernels, target, cache)      at the tt level: worker processes begin
…                                                   the host program is lowered meanwhile
code = making.finish()                              name → code; rows of `kernels` are filled in
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cuesta._mlir import ir
from cuesta.cache import Cache
from cuesta.dialects import walk
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.kernels import start_compiling
from cuesta.lowering.tt_to_binary.texts import grid_of, kernel_texts
from cuesta.targets import Target


@dataclass(frozen=True)
class Making:
    """Kernels on their way."""

    rows: list[dict[str, Any]]
    wait: Callable[[], list[KernelBinary]]

    def finish(self) -> dict[str, bytes]:
        """The code of each kernel. Raises the CompileError of the first that has none."""
        binaries = {binary.name: binary for binary in self.wait()}
        for row in self.rows:
            binary = binaries[row["name"]]
            row |= {"warps": binary.warps, "shared": binary.shared, "symbol": binary.symbol}
            row |= {"registers": binary.registers, "spills": binary.spills}
        return {row["name"]: binaries[row["name"]].code for row in self.rows}


def start(module: ir.Module, rows: list[dict[str, Any]], target: Target, cache: Cache | None) -> Making:
    """Begins to make the kernels that `rows` name, of a module at the tt level; adds their grids to the rows."""
    grids = {op.attributes["sym_name"].value: grid_of(op) for op in walk(module.operation) if op.name == "tt.func"}
    for row in rows:
        row["grid"] = list(grids[row["name"]])
    wanted = {row["name"] for row in rows}
    texts = [text for text in kernel_texts(module) if text.name in wanted]
    if target.kind == "tt":
        return Making(rows, lambda: [_interpreted(text) for text in texts])
    return Making(rows, start_compiling(texts, target, cache).binaries)


def _interpreted(text: KernelText) -> KernelBinary:
    return KernelBinary(text.name, text.text.encode(), 0, text.warps, text.name, None, None)
