"""Holds the kernels of a GPU program for its code: one table in memory, and the functions that launch kernels.

    words:  context | function  grid x  y  z  threads  shared bytes | …        lowering/host_to_llvm/gpu_step.py

With the driver, `symbols` has only the table, because the driver itself has the launcher. Interpreted kernels add their
own launchers.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuesta.runtime.schema.program import Kernel

TABLE = "cuesta_kernels"
#: Words of a kernel's row in the table.
ROW = 6


def _nothing() -> BaseException | None:
    return None


@dataclass
class KernelTable:
    """Loaded kernels. The table keeps alive everything that they need."""

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

    late: set[int] = field(default_factory=set)
    """The numbers of kernels that were left for later, and are not there yet."""
    make: Callable[[Sequence[int]], Sequence[Sequence[int]]] | None = None
    """Makes such kernels: their rows of the table."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, numbers: Sequence[int]) -> None:
        """Loads those kernels among `numbers` that are still missing. Raises what `make` raises."""
        with self._lock:
            missing = [n for n in numbers if n in self.late]
            if missing:
                assert self.make is not None
                for number, row in zip(missing, self.make(missing), strict=True):
                    self.words[1 + number * ROW : 1 + (number + 1) * ROW] = list(row)
                self.late -= set(missing)

    @property
    def symbols(self) -> dict[str, int]:
        return {TABLE: ctypes.addressof(self.words), **self.launchers}


def row_of(function: int, kernel: Kernel, warp_size: int) -> list[int]:
    """The row of a kernel that the metadata describe. A symbolic side of its grid is 0: the launch computes it."""
    grid = [0 if isinstance(n, str) else n for n in kernel["grid"]]
    return [function, *grid, kernel["warps"] * warp_size, kernel["shared"]]


def make_words(context: int, rows: Sequence[Sequence[int]]) -> Any:
    """The table with these rows."""
    words = [context, *(word for row in rows for word in row)]
    return (ctypes.c_int64 * len(words))(*words)


def numbers_of_late(kernels: Sequence[Kernel]) -> set[int]:
    """The numbers of the kernels that are loaded only when sizes need them."""
    return {number for number, kernel in enumerate(kernels) if kernel["late"]}
