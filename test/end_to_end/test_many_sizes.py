"""Graphs that are compiled for each set of sizes: what is kept of them is bounded, and what is dropped is freed."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import cuesta
from cuesta.driver import specialise
from cuesta.driver.cache import graph_cache
from cuesta.reports import compile_report

R = torch.randn


def clamped(x: Tensor) -> Tensor:
    """The float that depends on a size has no place in a program for all sizes."""
    return (x.clamp(max=x.shape[0] ** 0.5).exp() + 1).sum(0)


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def resident() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize(
    ("lengths", "kept"), [(24, 4), pytest.param(200, specialise.KEPT_PROGRAMS, marks=pytest.mark.slow)]
)
def test_memory_is_flat(lengths: int, kept: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for module, name in ((specialise, "KEPT_PROGRAMS"), (compile_report, "_KEPT_OF_A_GRAPH")):
        monkeypatch.setattr(module, name, kept)
    monkeypatch.setattr(graph_cache, "_MOST_RECORDED", kept)
    function = torch.compile(clamped, backend="cuesta", dynamic=True, options={"cache": False, "opt_level": 0})
    seen: list[tuple[int, int, int]] = []
    for n in range(2, lengths + 2):
        x = R(n, 8)
        assert_close(function(x), clamped(x))
        if n in (lengths // 2, lengths + 1):
            gc.collect()
            seen.append((mappings(), len(gc.get_objects()), resident()))
    (maps, objects, size), (maps_later, objects_later, size_later) = seen
    assert maps_later <= maps + 2  # malloc maps large blocks by itself
    assert objects_later <= objects + 50
    assert size_later <= size + (4 << 20)
    (*_, graph) = graphs = cuesta.report().graphs
    assert len(graphs) == kept and graph.sets is not None
    assert (graph.sets.compiled, graph.sets.kept) == (lengths, kept)
    assert f"compiled for each set of sizes ({lengths} so far, {kept} kept)" in str(cuesta.report())
    assert not list(tmp_path.iterdir())


def test_the_sizes_called_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "KEPT_PROGRAMS", 2)
    function = torch.compile(clamped, backend="cuesta", dynamic=True, options={"cache": False, "opt_level": 0})
    counts = []
    for n in (3, 4, 3, 5, 3, 4):
        function(R(n, 2))
        graph = cuesta.report().graphs[-1]
        assert graph.sets is not None
        counts.append(graph.sets.compiled)
    assert counts == [1, 2, 2, 3, 3, 4]


def test_threads_call_what_others_drop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specialise, "KEPT_PROGRAMS", 1)
    function = torch.compile(clamped, backend="cuesta", dynamic=True, options={"cache": False, "opt_level": 0})
    function(R(3, 2))
    wrong: list[BaseException] = []

    def work(first: int) -> None:
        try:
            for turn in range(6):
                x = R(first + turn % 3, 50_000)
                assert_close(function(x), clamped(x))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(4 + i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
