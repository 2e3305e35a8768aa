"""Compiles kernels of a GPU program only when a call's sizes need them; until then the program holds their texts.

The second versions of kernels (passes/tiles/kernel_versions.py) are compiled so. Imports no MLIR: Triton compiles in
processes of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.cache import Cache
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.kernels import compile_kernels
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.schema.program import Kernel
from cuesta.targets import parse_target


def describe(row: Kernel, binary: KernelBinary) -> None:
    """Fills in a compiled kernel's fields of its row in a program's metadata."""
    row["warps"], row["shared"], row["symbol"] = binary.warps, binary.shared, binary.symbol
    row["registers"], row["spills"] = binary.registers, binary.spills


def make_late(artefact: Artefact, numbers: Sequence[int], cache: Cache | None = None) -> list[Kernel]:
    """Compiles the kernels of these numbers in place, unless they are compiled; returns their rows. `cache` keeps them
    on disk.

    Raises the CompileError of the first that cannot be made, or where there is no Triton.
    """
    program = artefact.metadata["program"]
    rows = [program["kernels"][n] for n in numbers]
    missing = [row for row in rows if not row["made"]]
    texts = [KernelText.from_bytes(artefact.kernels[row["name"]]) for row in missing]
    # If nothing is missing, Triton is not needed.
    made = compile_kernels(texts, parse_target(program["target"]), cache) if texts else []
    for row, binary in zip(missing, made, strict=True):
        artefact.kernels[row["name"]] = binary.code
        row["made"] = True
        describe(row, binary)
    return rows


def make_all(artefact: Artefact) -> None:
    """Compiles all kernels that are still texts, for a process without a compiler. Raises what `make_late` does."""
    program = artefact.metadata["program"]
    numbers = [n for n, row in enumerate(program["kernels"]) if not row["made"]]
    if numbers and parse_target(program["target"]).kind != "tt":
        make_late(artefact, numbers)
