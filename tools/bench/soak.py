"""Checks that a process does not grow over many calls.

    `python -m cuesta.tools.bench.soak [--calls 20000] [--threads 4] [--plot FILE]`.

Threads make many calls of a small transformer whose batch and length are symbolic sizes and vary, and now and then
of a graph that is compiled for each set of sizes separately. The first quarter of the calls is a warm-up, which fills
every table of programs and of sizes if there are 8,000 calls or more. After it the process must not grow: neither its
memory nor its mappings, open files and temporary files. Every sample is taken while no call is running, after a
collection of Python's garbage.

Some results are compared with eager's. Eager leaves memory behind for every new set of sizes: oneDNN keeps the code
that it makes for a `gelu` of these sizes, about 30 KB. Eager is therefore called once with all sizes before the first
sample, so that what grows afterwards is cuesta's.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from cuesta.reports.quantities import size_text
from cuesta.tools.bench.reporting.table import table

#: Sequences, and tokens of each: more pairs than the 256 sets of sizes whose tables a program keeps.
BATCHES, LENGTHS = range(2, 10), range(4, 100)
#: Row counts of the graph that is compiled for each row count: more than the programs that such a graph keeps.
ROWS = range(2, 66)
#: One call in so many runs the graph that is compiled for each row count.
SPECIALISED = 50
#: One call in so many is compared with eager.
COMPARED = 20
SAMPLES = 40
#: What may remain of each call: bytes of malloc's and Python objects. A leak of 100 bytes a call is found.
BYTES_A_CALL, OBJECTS_A_CALL = 50, 0.1
HEADER = ("", "second quarter", "last quarter", "allowed")


class Layer(nn.Module):
    """A layer of a transformer's decoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """[batch, length, width] → the same."""
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.before_mlp(x))


class Transformer(nn.Module):
    """Two layers on embedded tokens, [batch, length] → [batch, length, vocabulary]."""

    def __init__(self, vocabulary: int = 100, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(Layer(width, heads), Layer(width, heads))

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.layers(self.table(tokens)) @ self.table.weight.mT
        return logits


def gates(x: Tensor) -> Tensor:
    """[rows, 32] → the same shape: the graph that is compiled for each row count."""
    return (x.sigmoid() * x).softmax(-1) @ x.mT @ x


class _HeapState(ctypes.Structure):
    """What glibc's `mallinfo2` returns. Its `hblkhd` and `uordblks` are the bytes in use: in mappings of their own, and
    in heaps."""

    _fields_ = [
        ("others", ctypes.c_size_t * 4),
        ("hblkhd", ctypes.c_size_t),
        ("unused", ctypes.c_size_t * 2),
        ("uordblks", ctypes.c_size_t),
        ("free", ctypes.c_size_t * 2),
    ]


def allocated_bytes() -> int:
    """Bytes that the process has from malloc and has not freed, by glibc 2.33 or later."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _HeapState
    state: _HeapState = mallinfo()
    return int(state.uordblks) + int(state.hblkhd)


@dataclass(frozen=True)
class Sample:
    """A process's resources after a number of calls: memory in bytes, the others as counts."""

    calls: int
    memory: int
    allocated: int
    #: blocks of Python's own allocator, of 512 bytes at most: malloc does not see them
    objects: int
    mappings: int
    files: int
    temporary_files: int

    @staticmethod
    def now(calls: int) -> Sample:
        gc.collect()
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        mappings = Path("/proc/self/maps").read_bytes().count(b"\n")
        files = len(os.listdir("/proc/self/fd"))
        # os.walk passes over folders that other processes remove meanwhile.
        temporary = sum(len(folders) + len(files) for _, folders, files in os.walk(tempfile.gettempdir()))
        return Sample(calls, memory, allocated_bytes(), sys.getallocatedblocks(), mappings, files, temporary)


@dataclass
class Soak:
    """The calls of a server, from threads that all call the same compiled functions."""

    calls: int
    threads: int

    def run(self) -> list[Sample]:
        """Makes the calls. Raises AssertionError if a result differs from eager's."""
        torch.compiler.reset()
        self.model = Transformer().eval()
        self.compiled = torch.compile(self.model, backend="cuesta", dynamic=True)
        # With a memory limit, cuesta compiles the graph for each set of sizes, because it plans the memory for each.
        limited: dict[str, Any] = {"memory_limit": 64 << 20}
        self.gates = torch.compile(gates, backend="cuesta", dynamic=True, options=limited)
        self._fill_eagers_caches()
        drawn = [random.Random(number) for number in range(self.threads)]
        ends = [self.calls * n // SAMPLES for n in range(SAMPLES + 1)]
        samples = [Sample.now(0)]
        with ThreadPoolExecutor(self.threads) as pool:
            for first, end in itertools.pairwise(ends):
                numbers = iter(range(first, end))  # the threads share it, so that each call is made once
                for thread in [pool.submit(self._serve, numbers, some) for some in drawn]:
                    thread.result()
                samples.append(Sample.now(end))
        return samples

    @torch.no_grad()
    def _fill_eagers_caches(self) -> None:
        for batch, length in itertools.product(BATCHES, LENGTHS):
            self.model(torch.randint(100, (batch, length)))
        for rows in ROWS:
            gates(torch.randn(rows, 32))

    @torch.no_grad()
    def _serve(self, numbers: Iterator[int], drawn: random.Random) -> None:
        for call in numbers:
            if call % SPECIALISED == 0:
                self._call(gates, self.gates, torch.randn(drawn.choice(ROWS), 32), call)
            else:
                tokens = torch.randint(100, (drawn.choice(BATCHES), drawn.choice(LENGTHS)))
                self._call(self.model, self.compiled, tokens, call)

    def _call(self, eager: object, compiled: object, x: Tensor, call: int) -> None:
        assert callable(eager) and callable(compiled)
        result = compiled(x)
        if call % COMPARED == 0:
            torch.testing.assert_close(result, eager(x), rtol=1e-3, atol=1e-4)


@dataclass(frozen=True)
class Growth:
    """A quantity in the second quarter of the calls, after the warm-up, and in the last quarter."""

    name: str
    before: float
    after: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.after - self.before <= self.allowed


def growths(samples: Sequence[Sample], threads: int) -> list[Growth]:
    """The growth of each quantity's median, and of what malloc has allocated at the least: free blocks that it caches
    for each thread count as allocated, and are up to 1 MB at times.

    What is allocated may grow by a little for each call between the two quarters. Resident memory may grow by a
    hundredth, because free memory between malloc's blocks comes and goes. Mappings may grow by two for each thread:
    malloc maps and unmaps large blocks. Files may not grow at all.
    """
    quarter = len(samples) // 4
    second, last = samples[quarter : 2 * quarter], samples[-quarter:]
    calls = last[0].calls - second[0].calls

    def of(name: str, attribute: str, allowed: float, typical: Callable[[list[int]], float] = median) -> Growth:
        before, after = (typical([getattr(sample, attribute) for sample in some]) for some in (second, last))
        return Growth(name, before, after, allowed)

    memory = median(sample.memory for sample in second)
    return [
        of("resident memory", "memory", memory / 100),
        of("allocated by malloc", "allocated", BYTES_A_CALL * calls, min),
        of("Python's small objects", "objects", OBJECTS_A_CALL * calls),
        of("mappings", "mappings", 2 * threads),
        of("open files", "files", 0),
        of("temporary files", "temporary_files", 0),
    ]


def plot(path: Path, samples: Sequence[Sample], title: str) -> None:
    """Writes a picture: memory and mappings over the calls."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, figsize=(8, 5), sharex=True, layout="constrained")
    calls = [sample.calls for sample in samples]
    above.plot(calls, [sample.memory / 2**20 for sample in samples], color="#2f6fb3", label="resident")
    above.plot(calls, [sample.allocated / 2**20 for sample in samples], color="#3f9b5f", label="allocated by malloc")
    above.set_ylabel("memory, MiB")
    above.legend(loc="center right", fontsize=8)
    below.plot(calls, [sample.mappings for sample in samples], color="#e08a2e", label="mappings")
    below.plot(calls, [sample.files for sample in samples], color="#8c8c8c", label="open files")
    below.legend(loc="center right", fontsize=8)
    below.set_xlabel("calls")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.axvspan(0, calls[len(calls) // 4], color="#dddddd", linewidth=0)
    above.set_title(title, fontsize=9)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Makes the calls, prints and draws the growth, and returns 1 if something has grown."""
    parser = argparse.ArgumentParser(prog="python -m cuesta.tools.bench.soak", description="memory over many calls")
    parser.add_argument("--calls", type=int, default=20000, metavar="N", help="number of calls (20000)")
    parser.add_argument("--threads", type=int, default=4, metavar="N", help="number of threads that call at a time (4)")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write the picture to this file")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)  # the server's threads are the only parallelism
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"], tempfile.tempdir = folder, None  # so that only this process's files are counted
        start = time.monotonic()
        samples = Soak(arguments.calls, arguments.threads).run()
        seconds = time.monotonic() - start
        found = growths(samples, arguments.threads)
    text = {"resident memory": size_text, "allocated by malloc": size_text}
    rows = [[g.name, *(text.get(g.name, str)(int(n)) for n in (g.before, g.after, g.allowed))] for g in found]
    print(f"{arguments.calls} calls from {arguments.threads} threads in {seconds:.0f} s")
    print(table(HEADER, rows))
    if arguments.plot is not None:
        told = f"{arguments.calls} calls from {arguments.threads} threads, torch {torch.__version__}; grey: warm-up"
        plot(arguments.plot, samples, told)
    return 0 if all(growth.is_flat for growth in found) else 1


if __name__ == "__main__":
    sys.exit(main())
