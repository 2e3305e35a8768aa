"""Loads an artefact as an executable, with its kernels if it has any for a GPU, and defines what a compiled graph is.
Imports no MLIR, except for target tt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from cuesta.cache import Cache
from cuesta.errors import DeviceError
from cuesta.frontend.convention import Convention
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.kernel_table import KernelTable
from cuesta.targets import Target, parse_target
from cuesta.torch_library import torch_library


@dataclass(frozen=True)
class MadeProgram:
    """A compiled graph: its loaded program, its calling convention and its artefact."""

    executable: Executable
    convention: Convention
    #: key of the entry in the cache
    key: str
    #: waits for the artefact, if that is still being made
    artefact: Callable[[], Artefact]


def load(artefact: Artefact, cache: Cache | None = None) -> Executable:
    """Loads a program. `cache` keeps kernels that are compiled later. Raises ArtefactError or DeviceError where the
    program does not load on this machine."""
    target = parse_target(artefact.metadata["program"]["target"])
    return Executable(artefact, _kernels(artefact, target, cache) if target.gpu else None)


def can_run(target: Target) -> bool:
    """Whether programs for a target can be launched. For other targets only kernels are made (`cuesta.compile_for`)."""
    return target.kind in ("cpu", "cuda", "tt")


def _kernels(artefact: Artefact, target: Target, cache: Cache | None) -> KernelTable:
    program = artefact.metadata["program"]
    if target.kind == "tt":
        from cuesta.driver.interpreted import load_interpreted  # needs MLIR

        return load_interpreted(program["kernels"], artefact.kernels, checked="checked" in program)
    if not can_run(target):
        raise DeviceError(f"programs for {target} cannot be launched here; compile_for makes their kernels")
    device = torch.device(program["device"])
    from cuesta.runtime.cuda import cuda_driver

    if not torch.cuda.is_available():
        raise DeviceError(f"a program for {target} needs a GPU; torch finds none on this machine")
    torch.cuda.init()
    library = torch_library("libtorch_cuda.so")
    where = str(target), device.index or 0
    table = cuda_driver.load_kernels(program["kernels"], artefact.kernels, *where, [library])

    def make(numbers: Sequence[int]) -> list[list[int]]:
        from cuesta.driver.late.late_kernels import make_late

        return cuda_driver.rows_of(make_late(artefact, numbers, cache), artefact.kernels, *where)

    table.make = make
    return table
