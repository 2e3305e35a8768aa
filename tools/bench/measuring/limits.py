"""Measures this machine's peak bandwidths and FLOP rate with a number of threads, and derives a call's least time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from cuesta.tools.bench.measuring.cost import Cost
from cuesta.tools.bench.measuring.loops import SCRATCH, Loops

SAMPLE_SECONDS = 0.02
SAMPLES = 7
"""The best of them counts: disturbances only slow a loop down."""
MEMORY_BYTES = 256 << 20
"""Bytes read to measure the memory if the cache sizes are unknown."""
BEYOND = 16
"""The size of the block that measures the memory, over that of the last cache. A cache keeps a part of a block of four
times its size from pass to pass: behind an L3 of 32 MiB two threads read 128 MiB at 48 GB/s, 512 MiB at 43 (Zen 5)."""

_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Level:
    """A cache, or the memory behind all of them."""

    name: str
    capacity: float
    """Bytes that all threads' caches of this level hold; infinite for the memory."""
    read: float
    """Bytes a second of a loop that only reads."""
    scale: float
    """Bytes a second of a loop that reads as many bytes as it writes; both count."""

    def seconds(self, read: float, written: float) -> float:
        """The time to move these bytes. A written byte costs the time of `scale` less that of the read."""
        return read / self.read + written * max(2 / self.scale - 1 / self.read, 0.0)


@dataclass(frozen=True)
class Limit:
    """The least time of a call, and the resource that sets it."""

    seconds: float
    by: str
    """The level of the memory, or "FMA"."""


@dataclass(frozen=True)
class Limits:
    """The machine's limits with a number of threads. Levels: nearest cache first, memory last."""

    levels: tuple[Level, ...]
    operations: float
    """f32 operations a second; a multiplication and an addition are two."""

    def of(self, cost: Cost) -> Limit:
        """The larger of two times: that of the bytes, at the speed of the nearest level that holds the footprint, and
        that of the operations."""
        level = next(level for level in self.levels if cost.footprint <= level.capacity)
        moved = Limit(level.seconds(cost.read, cost.written), level.name)
        return max(moved, Limit(cost.operations / self.operations, "FMA"), key=lambda limit: limit.seconds)

    def better(self, other: Limits) -> Limits:
        """The best of two measurements of one machine."""
        levels = tuple(
            Level(a.name, a.capacity, max(a.read, b.read), max(a.scale, b.scale))
            for a, b in zip(self.levels, other.levels, strict=True)
        )
        return Limits(levels, max(self.operations, other.operations))

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Limits:
        """The inverse of `as_dict`."""
        levels = [Level(**(level | {"capacity": level["capacity"] or math.inf})) for level in content["levels"]]
        return Limits(tuple(levels), content["operations"])

    def as_dict(self) -> dict[str, Any]:
        """As JSON values: None replaces the memory's infinite capacity."""
        levels = [asdict(level) for level in self.levels]
        levels[-1]["capacity"] = None
        return {"operations": self.operations, "levels": levels}

    def __str__(self) -> str:
        levels = [f"{lv.name} {lv.read / 1e9:.3g} GB/s read, {lv.scale / 1e9:.3g} scaled" for lv in self.levels]
        return f"{self.operations / 1e9:.3g} GFLOP/s; {'; '.join(levels)}"


def cache_sizes(threads: int, cpus: Path = _CPUS) -> dict[str, int]:
    """Name → total bytes of the data caches of `threads` threads, nearest level first; empty if Linux does not report
    them. Assumes one thread per core."""
    found: dict[int, dict[str, int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        for index in sorted((cpus / f"cpu{cpu}" / "cache").glob("index*")):
            kind, level, size, shared = (
                (index / name).read_text().strip() for name in ("type", "level", "size", "shared_cpu_list")
            )
            if kind != "Instruction":
                found.setdefault(int(level), {})[shared] = int(size.removesuffix("K")) << 10
    sizes: dict[str, int] = {}
    for number, instances in sorted(found.items()):
        sizes[f"L{number}"] = sum(sorted(instances.values(), reverse=True)[:threads])
    return sizes


class Meter:
    """Runs loops on `threads` threads at once and times them."""

    def __init__(self, loops: Loops, threads: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self.loops = loops
        self.threads = threads
        self.clock = clock

    def limits(self, caches: Mapping[str, int]) -> Limits:
        """Measures the levels in `caches` (name → bytes over all threads) and the memory. Takes some seconds, and
        allocates several times the last cache's size."""
        sizes = self._sizes(caches)
        with self._blocks(max(sizes.values())):
            levels = [self._level(name, caches.get(name, math.inf), size) for name, size in sizes.items()]
            iterations = self._rate(lambda i, count: self.loops.multiply_add(self.scratch[i].data_ptr(), count), 1000)
        return Limits(tuple(levels), iterations * self.loops.operations)

    def memory_read(self, caches: Mapping[str, int]) -> float:
        """Measures the bytes a second of a loop that only reads the memory behind the `caches`."""
        size = self._sizes(caches)["memory"]
        with self._blocks(size):
            return self._read(size)

    @contextmanager
    def _blocks(self, size: int) -> Iterator[None]:
        """Threads, and for each of them the scratch of the loops and `size` bytes of memory."""
        with ThreadPoolExecutor(self.threads) as self.pool:
            self.scratch = [_aligned(SCRATCH) for _ in range(self.threads)]
            self.memory = [_aligned(size) for _ in range(self.threads)]
            yield

    def _sizes(self, caches: Mapping[str, int]) -> dict[str, int]:
        """Level → bytes for each thread, a power of two. All threads together fit well within the level and exceed the
        nearer level by far; for the memory, they exceed the last cache `BEYOND` times."""
        sizes = {}
        nearer = 0
        for name, capacity in caches.items():
            total = math.sqrt(nearer * capacity) if nearer else capacity / 2
            sizes[name] = 1 << math.floor(math.log2(total / self.threads))
            nearer = capacity
        return sizes | {"memory": 1 << math.ceil(math.log2((BEYOND * nearer or MEMORY_BYTES) / self.threads))}

    def _level(self, name: str, capacity: float, size: int) -> Level:
        memory = [block.data_ptr() for block in self.memory]
        # Source and destination together have the size of the block that `read` reads.
        half = size // 2

        def scaled(write: Callable[[int, int, int, int], None]) -> float:
            return self._rate(lambda i, count: write(memory[i] + half, memory[i], half, count), half)

        return Level(name, capacity, self._read(size), 2 * max(scaled(self.loops.scale), scaled(self.loops.stream)))

    def _read(self, size: int) -> float:
        """Bytes a second of a loop that reads a block of `size` bytes in each thread."""
        scratch, memory = ([block.data_ptr() for block in blocks] for blocks in (self.scratch, self.memory))
        return self._rate(lambda i, count: self.loops.read(scratch[i], memory[i], size, count), size)

    def _rate(self, work: Callable[[int, int], None], unit: int) -> float:
        """The best rate of all threads together, per second. `work` takes a thread and an amount in steps of `unit`."""
        amount = unit
        while (shortest := self._seconds(work, amount)) < SAMPLE_SECONDS:
            amount *= 2
        for _ in range(SAMPLES - 1):
            shortest = min(shortest, self._seconds(work, amount))
        return self.threads * amount / shortest

    def _seconds(self, work: Callable[[int, int], None], amount: int) -> float:
        start = self.clock()
        list(self.pool.map(lambda thread: work(thread, amount), range(self.threads)))
        return self.clock() - start


def _aligned(size: int) -> torch.Tensor:
    """`size` bytes of f32, aligned to 64. All are written, so that the kernel backs every page with memory."""
    block = torch.ones(size // 4 + 16)
    start = -block.data_ptr() % 64 // 4
    return block[start : start + size // 4]
