"""Compiles the kernels of a module for a target, and retries a kernel with smaller blocks if it is too large for the
target or Triton fails on it.

making = start_kernels(kernels_of(module), target, cache, smaller)      returns at once
for made in making.finish(): …                                          waits; some are made again, with smaller blocks
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.cache import Cache
from cuesta.errors import CompileError, KernelRefused, OutOfResources, Unsupported
from cuesta.lowering.tt_to_binary.kernel import Grid, KernelBinary, KernelText
from cuesta.lowering.tt_to_binary.kernels import Compiling, start_compiling
from cuesta.lowering.tt_to_binary.texts import kernel_grids, kernel_texts
from cuesta.targets import Target

#: (names of kernels, how often their blocks are to be halved) → a module at the tt level that has those kernels.
Smaller: TypeAlias = Callable[[Collection[str], int], ir.Module]

_MOST_HALVINGS = 8


@dataclass(frozen=True)
class MadeKernel:
    """A kernel and its code."""

    text: KernelText
    grid: Grid
    binary: KernelBinary
    #: how often its block was halved before the target had room for it and Triton took it
    halvings: int = 0


@dataclass
class KernelMaking:
    """Kernels that are being compiled."""

    _kernels: Sequence[tuple[KernelText, Grid]]
    _start: Callable[[Sequence[tuple[KernelText, Grid]]], Compiling]
    _compiling: Compiling
    _smaller: Smaller | None

    def finish(self) -> list[MadeKernel]:
        """Waits, and returns the kernels in their order.

        Raises Unsupported for a kernel that is too large, or that Triton fails on, however small its block; any other
        CompileError is that of the first kernel that failed.
        """
        made: dict[str, MadeKernel] = {}
        kernels, compiling = self._kernels, self._compiling
        for halvings in range(_MOST_HALVINGS + 1):
            again: dict[str, CompileError] = {}
            for (text, grid), outcome in zip(kernels, compiling.outcomes(), strict=True):
                if isinstance(outcome, (OutOfResources, KernelRefused)) and self._smaller is not None:
                    again[text.name] = outcome
                elif isinstance(outcome, CompileError):
                    raise outcome
                else:
                    made[text.name] = MadeKernel(text, grid, outcome, halvings)
            if not again or self._smaller is None:
                return [made[text.name] for text, _ in self._kernels]
            error = next(iter(again.values()))
            if halvings < _MOST_HALVINGS:
                kernels = kernels_of(self._smaller(again, halvings + 1))
                compiling = self._start(kernels)
        raise Unsupported(f"{error}, however small its block") from error


def kernels_of(module: ir.Module) -> list[tuple[KernelText, Grid]]:
    """The text and the grid of every kernel of a module at the tt level, in the order of the module."""
    return list(zip(kernel_texts(module), kernel_grids(module), strict=True))


def start_kernels(
    kernels: Sequence[tuple[KernelText, Grid]],
    target: Target,
    cache: Cache | None = None,
    smaller: Smaller | None = None,
    *,
    keep_assembly: bool = False,
) -> KernelMaking:
    """Begins to compile kernels. If `smaller` is None, a kernel that is too large is an error.

    Raises CompileError where there is no Triton, or one that cuesta does not work with.
    """

    def start(kernels: Sequence[tuple[KernelText, Grid]]) -> Compiling:
        return start_compiling([text for text, _ in kernels], target, cache, keep_assembly=keep_assembly)

    return KernelMaking(kernels, start, start(kernels), smaller)
