"""A training step's backward graph is compiled in another process, if that pays.

But for the first test, the other process is a stand-in that compiles in a thread.
"""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

import cuesta
from cuesta.driver.background import ahead, service
from cuesta.driver.background.service import Job
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary.kernel import unpack
from cuesta.reports.compile_report import GraphReport

pytestmark = pytest.mark.usefixtures("cuesta_only")


@pytest.fixture(autouse=True)
def an_idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of any size are worth it, and processors are free."""
    monkeypatch.setattr(ahead, "LEAST_NODES", 1)
    monkeypatch.setattr(ahead, "LEAST_CAPTURED", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 9.0, 9.0))


@pytest.fixture
def willing(worker: Any) -> Any:
    """The stand-in for the other process, which answers at once."""
    worker.gate.set()
    return worker


def step(**options: object) -> list[GraphReport]:
    """The reports of a training step's graphs, whose gradients are eager's."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    x, other = torch.randn(3, 8), copy.deepcopy(model)
    compiled = torch.compile(model, backend="cuesta", options={"cache": False, **options})
    for each in (compiled, other):
        each(x).square().mean().backward()
    for ours, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    return [graph for graph in cuesta.report().graphs if graph.name in ("forward", "backward")]


def places(graphs: list[GraphReport]) -> list[str | None]:
    return [graph.elsewhere for graph in graphs]


def unknown() -> NoReturn:
    raise OSError("no /proc/loadavg")


_ELSEWHERE = "in another process, while this one compiled the forward graph"


def test_a_process_of_its_own_compiles_the_backward_graph() -> None:
    forward, backward = step()
    assert places([forward, backward]) == [None, _ELSEWHERE]
    assert f"compiled {_ELSEWHERE}" in "\n".join(backward.lines())
    assert backward.kernels and {"graph", "kernels", "wait for the other process"} <= backward.times.keys()


def test_what_is_told_of_a_program_is_the_same(willing: Any) -> None:
    _, elsewhere = step()
    torch._dynamo.reset()
    willing.failure = CompileError("no room")
    _, here = step()
    assert places([elsewhere, here]) == [_ELSEWHERE, None]
    assert (elsewhere.kernels, elsewhere.peak_bytes) == (here.kernels, here.peak_bytes)
    (there_call,), (here_call,) = elsewhere.aten_calls, here.aten_calls
    assert (there_call["op"], there_call["where"]) == (here_call["op"], here_call["where"])


def test_what_fails_there_is_compiled_here(willing: Any) -> None:
    willing.failure = CompileError("no room")
    assert places(step()) == [None, None]
    (request,) = willing.requests
    assert unpack(request)[0]["kind"] == "backward"


def test_nobody_waits_for_a_worker_that_is_busy(willing: Any) -> None:
    willing.gate.clear()
    service.running_service().submit(Job(b"", lambda _: None, lambda _: None))
    assert places(step()) == [None, None]
    willing.gate.set()
    assert cuesta.wait_for_tiers()
    assert willing.requests == [b""]


@pytest.mark.parametrize("options", [{"tiered": True}, {"max_autotune": True}, {"memory_limit": 1 << 30}])
def test_options_that_need_this_process(willing: Any, options: dict[str, object]) -> None:
    assert _ELSEWHERE not in places(step(**options))


@pytest.mark.parametrize("case", ["load", "unknown load", "processors", "nodes"])
def test_where_it_does_not_pay(willing: Any, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    if case == "load":
        monkeypatch.setattr(os, "getloadavg", lambda: (5.0, 0.0, 0.0))
    elif case == "unknown load":
        monkeypatch.setattr(os, "getloadavg", unknown)
    elif case == "processors":
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    else:
        monkeypatch.setattr(ahead, "LEAST_NODES", 1000)
    assert places(step()) == [None, None]
    assert willing.requests == []


def test_a_warm_start_asks_for_nothing(willing: Any, tmp_path: Path) -> None:
    cached = {"cache": True, "cache_dir": tmp_path}
    step(**cached)
    torch._dynamo.reset()
    assert [graph.cache["hit"] for graph in step(**cached)[-2:]] == [True, True]
    assert len(willing.requests) == 1


def test_a_worker_that_was_started_in_vain_ends(willing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LEAST_NODES", 1000)
    ended = []
    willing.process.kill = lambda: ended.append(True)
    step()
    assert ended == [True]
    monkeypatch.setattr(ahead, "LEAST_NODES", 1)
    torch._dynamo.reset()
    assert places(step()) == [None, _ELSEWHERE]


def test_inference_starts_no_process(willing: Any) -> None:
    compiled = torch.compile(torch.nn.Linear(8, 4), backend="cuesta", options={"cache": False})
    with torch.no_grad():
        compiled(torch.randn(3, 8))
    assert service.running_service()._thread is None
