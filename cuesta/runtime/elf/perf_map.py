"""Writes a perf map: the file from which Linux's perf takes the names of a just-in-time compiler's functions.

    CUESTA_PERF_MAP=1 perf record python train.py
    perf report

The file has a line for each function: its address, its size and its name. perf looks for it in /tmp
(https://github.com/torvalds/linux/blob/master/tools/perf/Documentation/jit-interface.txt).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Function(NamedTuple):
    """A function in memory: its address, its bytes, its name."""

    address: int
    size: int
    name: str


def path_of(process: int) -> Path:
    """Where perf looks for a process's map."""
    return Path(f"/tmp/perf-{process}.map")


def add_to_map(functions: Iterable[Function]) -> None:
    """Appends functions to this process's map. Functions that were freed keep their lines."""
    lines = "".join(f"{f.address:x} {f.size:x} {f.name}\n" for f in functions)
    with path_of(os.getpid()).open("a") as file:  # one write: other threads load code too
        file.write(lines)
