"""Graphs that are called with many sets of sizes, whether a program is compiled for each set or one program has tables
for each: what is kept of them is bounded, and what is dropped is freed."""

from __future__ import annotations

import gc
import threading
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import cuesta
from cuesta.driver import calling, specialise
from cuesta.driver.cache import graph_cache
from cuesta.reports import compile_report
from cuesta.tools.bench.soak import allocated_bytes

R = torch.randn


def clamped(x: Tensor) -> Tensor:
    """The float that depends on a size has no place in a program for all sizes."""
    return (x.clamp(max=x.shape[0] ** 0.5).exp() + 1).sum(0)


def softmax_of_products(x: Tensor) -> Tensor:
    """One program holds this graph for all sizes, and calls ATen."""
    return (x @ x.mT).softmax(-1)


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


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
    torch.ones(1 << 20).exp()  # starts OpenMP's threads, whose stacks are mappings too
    for n in range(2, lengths + 2):
        x = R(n, 8)
        assert_close(function(x), clamped(x))
        if n in (lengths // 2, lengths + 1):
            gc.collect()
            seen.append((mappings(), len(gc.get_objects()), allocated_bytes()))
    (maps, objects, size), (maps_later, objects_later, size_later) = seen
    assert maps_later <= maps + 2  # malloc maps large blocks by itself
    assert objects_later <= objects + 50
    assert size_later <= size + (100 << 10)
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


def test_dropped_tables_are_no_work_for_pythons_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "KEPT_SIZES", 2)
    function = torch.compile(softmax_of_products, backend="cuesta", dynamic=True, options={"opt_level": 0})
    with torch.no_grad():
        x = R(3, 6)
        assert_close(function(x), softmax_of_products(x))
        gc.collect()
        gc.disable()
        try:
            for n in range(4, 20):
                x = R(n, 6)
                assert_close(function(x), softmax_of_products(x))
            assert gc.collect() == 0  # without references the tables are freed at once
        finally:
            gc.enable()
