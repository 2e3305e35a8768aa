"""The kernels of a GPU program as its code finds them: one table in memory, and what launches them.

    words:  context | function  grid x  y  z  threads  shared bytes | …        lowering/host_to_llvm/gpu_step.py

For the driver `symbols` has the table alone, since the launcher is the driver's own; kernels that are interpreted
bring launchers along.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

TABLE = "cuesta_kernels"


def _nothing() -> BaseException | None:
    return None


@dataclass
class KernelTable:
    """Kernels that are loaded; what they need lives as long as this."""

    words: Any
    """The table, a ctypes array of i64."""
    launchers: dict[str, int] = field(default_factory=dict)
    """The driver's functions that others stand in for, by name."""
    libraries: list[ctypes.CDLL] = field(default_factory=list)
    """Where the program's other symbols may be."""
    keep: object = None
    """What must live as long as the table."""
    take_exception: Callable[[], BaseException | None] = _nothing
    """The exception that a launch on this thread raised last, and forgets it."""

    @property
    def symbols(self) -> dict[str, int]:
        return {TABLE: ctypes.addressof(self.words), **self.launchers}


def make_words(context: int, functions: Sequence[int], kernels: Sequence[dict[str, Any]], warp_size: int) -> Any:
    """The table for kernels as the metadata describe them. A grid that depends on the call is the launch's: here 0."""
    words = [context]
    for function, kernel in zip(functions, kernels, strict=True):
        grid = [0 if isinstance(n, str) else n for n in kernel["grid"]]
        words += [function, *grid, kernel["warps"] * warp_size, kernel["shared"]]
    return (ctypes.c_int64 * len(words))(*words)
