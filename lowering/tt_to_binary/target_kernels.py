"""Compiles the kernels of a module at the tt level for a target, and writes them to a folder.

kernels = make_kernels(module, target)
write_kernels(kernels, target, "out")     # out/0/gelu.mlir, out/0/gelu.ptx, out/0/gelu.cubin, …, out/kernels.json
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cuesta._mlir import ir
from cuesta.cache import Cache
from cuesta.errors import OptionError
from cuesta.lowering.tt_to_binary.kernel import Grid
from cuesta.lowering.tt_to_binary.making import Smaller, kernels_of, start_kernels
from cuesta.reports.quantities import count_text
from cuesta.targets import Target

#: Suffixes of assembly and binary, by kind; SPIR-V has no assembly.
_SUFFIXES = {"cuda": (".ptx", ".cubin"), "hip": (".s", ".hsaco"), "xpu": ("", ".spv")}


@dataclass(frozen=True)
class TargetKernel:
    """A kernel made for a target."""

    #: the graph that launches it, counted from 0; a model with graph breaks has several
    graph: int
    name: str
    grid: Grid
    warps: int
    #: bytes of shared memory
    shared: int
    #: registers of a thread, and bytes of spills; None where the target's compiler does not say
    registers: int | None
    spills: int | None
    #: what the driver looks up in `binary`
    symbol: str
    #: the kernel as Triton read it
    text: str
    #: PTX, or AMD's assembly; None for SPIR-V
    assembly: str | None
    #: a cubin, an hsaco or SPIR-V
    binary: bytes

    def __str__(self) -> str:
        registers = "" if self.registers is None else f", {self.registers} registers, {self.spills} bytes of spills"
        grid = "x".join(map(str, self.grid))
        warps = count_text(self.warps, "warp")
        return f"{self.name}: grid {grid}, {warps}, {self.shared} bytes of shared memory{registers}"


def check_target(target: Target) -> None:
    """Raises OptionError for a target that kernels are not made for ahead of time: the CPU, and the interpreter."""
    if target.kind not in _SUFFIXES:
        raise OptionError(f"kernels are made ahead for GPUs ({', '.join(_SUFFIXES)}), not for target {target}")


def make_kernels(
    module: ir.Module,
    target: Target,
    cache: Cache | None = None,
    graph: int = 0,
    smaller: Smaller | None = None,
) -> list[TargetKernel]:
    """Compiles the kernels of a module at the tt level for `target`; `smaller` remakes those that are too large for it.

    Raises OptionError where the target is no GPU, CompileError for a kernel that cannot be made.
    """
    check_target(target)
    made = start_kernels(kernels_of(module), target, cache, smaller, keep_assembly=True).finish()
    return [
        TargetKernel(
            graph=graph,
            name=kernel.text.name,
            grid=kernel.grid,
            warps=kernel.binary.warps,
            shared=kernel.binary.shared,
            registers=kernel.binary.registers,
            spills=kernel.binary.spills,
            symbol=kernel.binary.symbol,
            text=kernel.text.text,
            assembly=kernel.binary.assembly,
            binary=kernel.binary.code,
        )
        for kernel in made
    ]


def write_kernels(
    kernels: Sequence[TargetKernel],
    target: Target,
    folder: str | Path,
    graphs: Sequence[str] = (),
    aten_calls: Mapping[str, int] | None = None,
) -> Path:
    """Writes each kernel's text, assembly and binary below `folder`, and kernels.json, which lists them.

    `graphs` has the kind of each graph, `aten_calls` the calls into ATen of all graphs. Raises OSError if a file
    cannot be written.
    """
    root = Path(folder)
    assembly_suffix, binary_suffix = _SUFFIXES[target.kind]
    root.mkdir(parents=True, exist_ok=True)
    rows = []
    for kernel in kernels:
        below = root / str(kernel.graph)
        below.mkdir(exist_ok=True)
        (below / f"{kernel.name}.mlir").write_text(kernel.text)
        (below / f"{kernel.name}{binary_suffix}").write_bytes(kernel.binary)
        if kernel.assembly is not None:
            (below / f"{kernel.name}{assembly_suffix}").write_text(kernel.assembly)
        row = asdict(kernel)
        for large in ("text", "assembly", "binary"):
            del row[large]
        rows.append(row | {"file": f"{kernel.graph}/{kernel.name}{binary_suffix}"})
    listed = {"target": str(target), "graphs": list(graphs), "kernels": rows, "aten_calls": dict(aten_calls or {})}
    (root / "kernels.json").write_text(json.dumps(listed, indent=2) + "\n")
    return root
