"""Assigns offsets to buffers that share one arena: largest first, each into the smallest gap that it fits.

Greedy by size with lifetimes (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net
Inference", 2020). Deterministic: ties go to the buffer that was born first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Bytes: a cache line, the widest vector register, and the alignment of the arena itself.
ALIGNMENT = 64


@dataclass(frozen=True)
class Buffer:
    """Memory that is live from step `first` to step `last`, both included."""

    nbytes: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both are live at some step."""
        return self.first <= other.last and other.first <= self.last


def aligned(nbytes: int) -> int:
    """`nbytes` rounded up to ALIGNMENT."""
    return (nbytes + ALIGNMENT - 1) & -ALIGNMENT


def place(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """The offset of each buffer, a multiple of ALIGNMENT, and the size in bytes of an arena for all of them."""
    offsets = [0] * len(buffers)
    order = sorted(range(len(buffers)), key=lambda i: (-buffers[i].nbytes, buffers[i].first, i))
    placed: list[tuple[int, int, Buffer]] = []  # (start, end, buffer)
    total = 0
    for index in order:
        buffer = buffers[index]
        taken = sorted((start, end) for start, end, other in placed if buffer.meets(other))
        offset = _best_gap(taken, aligned(buffer.nbytes))
        offsets[index] = offset
        end = offset + aligned(buffer.nbytes)
        placed.append((offset, end, buffer))
        total = max(total, end)
    return offsets, total


def _best_gap(taken: Sequence[tuple[int, int]], nbytes: int) -> int:
    """The start of the smallest gap of at least `nbytes` between ranges sorted by start; their end if there is none."""
    best, best_size, free = -1, 0, 0
    for start, end in taken:
        gap = start - free
        if gap >= nbytes and (best < 0 or gap < best_size):
            best, best_size = free, gap
        free = max(free, end)
    return free if best < 0 else best


def live_bytes(buffers: Sequence[Buffer], steps: int) -> list[int]:
    """The live bytes at each of `steps` steps, each buffer rounded up to ALIGNMENT."""
    change = [0] * (steps + 1)
    for buffer in buffers:
        change[buffer.first] += aligned(buffer.nbytes)
        change[buffer.last + 1] -= aligned(buffer.nbytes)
    live, now = [], 0
    for delta in change[:steps]:
        now += delta
        live.append(now)
    return live
