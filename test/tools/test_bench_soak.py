"""The soak: leaks show in its samples, it tells them from a process that is flat, and it makes all of its calls."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from cuesta.tools.bench import soak
from cuesta.tools.bench.soak import Sample, Soak, growths

CALLS = 20_000
EVERY = CALLS // soak.SAMPLES


def samples(**a_call: float) -> list[Sample]:
    """The samples of a process whose quantities grow by so much with each call."""
    first = Sample(0, 700 << 20, allocated=170 << 20, objects=1_800_000, mappings=750, files=6, temporary_files=1)
    return [
        dataclasses.replace(first, calls=n, **{name: getattr(first, name) + int(n * m) for name, m in a_call.items()})
        for n in range(0, CALLS + 1, EVERY)
    ]


def grown(samples: Sequence[Sample], threads: int = 4) -> list[str]:
    return [growth.name for growth in growths(samples, threads) if not growth.is_flat]


def test_a_flat_process_passes() -> None:
    assert not grown(samples())


@pytest.mark.parametrize(
    ("quantity", "a_call", "name"),
    [
        ("memory", 1024, "resident memory"),
        ("allocated", 100, "allocated by malloc"),
        ("objects", 1, "Python's small objects"),
        ("mappings", 0.01, "mappings"),
        ("files", 0.001, "open files"),
        ("temporary_files", 0.001, "temporary files"),
    ],
)
def test_a_leak_is_found(quantity: str, a_call: float, name: str) -> None:
    assert grown(samples(**{quantity: a_call})) == [name]


def test_each_thread_may_have_two_mappings_of_mallocs() -> None:
    few = samples(mappings=12 / CALLS)
    assert grown(few, threads=1) == ["mappings"]
    assert not grown(few, threads=4)


@pytest.fixture
def own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Temporary files are counted in a folder that no other process uses."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


#: Allocates with malloc and in Python. malloc counts freed blocks of up to 1,032 bytes as allocated while a thread
#: keeps them for its next call.
_ALLOCATES = """
import ctypes
from cuesta.tools.bench.soak import Sample
malloc, free = ctypes.CDLL(None).malloc, ctypes.CDLL(None).free
malloc.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
size, before = 2000, Sample.now(0)
blocks, objects = [malloc(size) for _ in range(10_000)], [bytes(100 + n % 2) for n in range(10_000)]
after = Sample.now(1)
for block in blocks:
    free(block)
freed = Sample.now(2)
assert after.allocated - before.allocated >= size * len(blocks), (before, after)
assert after.objects - before.objects >= len(objects), (before, after)
assert freed.allocated - before.allocated < size * len(blocks) / 2, (before, freed)
"""


@pytest.mark.usefixtures("own_folder")
def test_mallocs_blocks_and_pythons_objects_are_counted() -> None:
    """In a process of its own: in this one, what earlier tests have left is freed meanwhile."""
    subprocess.run([sys.executable, "-c", _ALLOCATES], check=True)


@pytest.mark.usefixtures("own_folder")
def test_all_calls_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    few: Any
    for name, few in (("BATCHES", range(2, 4)), ("LENGTHS", range(4, 6)), ("ROWS", range(2, 4)), ("SAMPLES", 3)):
        monkeypatch.setattr(soak, name, few)
    made: list[int] = []
    call_once = Soak._call

    def call(self: Soak, eager: object, compiled: object, x: Tensor, number: int) -> None:
        call_once(self, eager, compiled, x, number)
        made.append(number)

    monkeypatch.setattr(Soak, "_call", call)
    found = Soak(calls=101, threads=2).run()
    assert sorted(made) == list(range(101))
    assert [sample.calls for sample in found] == [0, 33, 67, 101]
