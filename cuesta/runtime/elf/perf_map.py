"""Tells Linux's perf the names of compiled functions: a map of the process's code, as just-in-time compilers write it.

    CUESTA_PERF_MAP=1 perf record python train.py
    perf report

A line for each function: its address, its size and its name. perf reads the file where it finds it, in /tmp
(https://github.com/torvalds/linux/blob/master/tools/perf/Documentation/jit-interface.txt).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

VARIABLE = "CUESTA_PERF_MAP"


class Function(NamedTuple):
    """A function in memory: its address, its bytes, its name."""

    address: int
    size: int
    name: str


def is_wanted() -> bool:
    """Whether the environment asks for a map."""
    return bool(os.environ.get(VARIABLE))


def path_of(process: int) -> Path:
    """Where perf looks for a process's map."""
    return Path(f"/tmp/perf-{process}.map")


def add_to_map(functions: Iterable[Function]) -> None:
    """Appends functions to this process's map. Where an address stands twice, as code was freed in between, perf takes
    what it reads last."""
    lines = "".join(f"{f.address:x} {f.size:x} {f.name}\n" for f in functions)
    with path_of(os.getpid()).open("a") as file:  # one write: other threads load code too
        file.write(lines)
