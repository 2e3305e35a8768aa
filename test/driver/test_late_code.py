"""Programs of which LLVM still makes the code: who waits for them, once, and what a failure comes to."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
import torch

import cuesta
from cuesta.driver import lower as compiling
from cuesta.driver.autotune.stopwatch import Stopwatch
from cuesta.driver.late.late_code import Begun, LateExecutable, wait_all
from cuesta.errors import CompileError
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable


class Doubles(Executable):
    def __init__(self) -> None:
        self._call = lambda tensors: [2 * x for x in tensors]
        self._fits = lambda tensors: True


class Making:
    """Code on its way; `fails` is what LLVM says."""

    def __init__(self, fails: str = "") -> None:
        self.fails = fails
        self.waited = 0
        self.report = GraphReport("late")
        self.program = LateExecutable(Begun({}, self.finish), lambda _: Doubles(), self.report)

    def finish(self) -> Artefact:
        self.waited += 1
        if self.fails:
            raise CompileError(self.fails)
        return Artefact(b"", "cuesta_main", {})


def test_the_first_call_waits_and_no_other() -> None:
    making = Making()
    assert making.waited == 0
    for _ in range(3):
        assert making.program([torch.ones(1)]) == [torch.full((1,), 2.0)]
    assert making.waited == 1
    assert set(making.report.times) == {"load and keep"}


def test_threads_wait_together() -> None:
    making = Making()
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(making.program([torch.ones(1)]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(results), making.waited) == (4, 1)


@pytest.mark.parametrize("wait", [wait_all, lambda: Stopwatch(budget=0).race({"": lambda: None})])
def test_others_wait_for_all_and_a_failure_is_for_who_calls(wait: Callable[[], object]) -> None:
    fails, works = Making("LLVM refused the module"), Making()
    wait()
    assert (fails.waited, works.waited) == (1, 1)
    for _ in range(2):
        with pytest.raises(CompileError, match="LLVM refused the module"):
            fails.program([])


def test_a_forked_child_has_whole_programs() -> None:
    making = Making()
    child = os.fork()
    if child == 0:
        os._exit(making.waited)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def test_a_graph_that_llvm_refuses_ends_in_the_command_that_repeats_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> bytes:
        raise CompileError("LLVM refused the module")

    monkeypatch.setattr(compiling, "begin_object", lambda module, level: refuse)
    torch._dynamo.reset()
    with pytest.raises(CompileError, match=r"LLVM refused the module[\s\S]*cuesta-run"):
        torch.compile(lambda x: x.exp() + 1, backend="cuesta", options={"cache": False})(torch.randn(8))
    torch._dynamo.reset()
    with torch._dynamo.config.patch(suppress_errors=True):
        made = torch.compile(lambda x: x.exp() + 1, backend="cuesta", options={"cache": False})(torch.ones(8))
    torch.testing.assert_close(made, torch.ones(8).exp() + 1)


def test_programs_of_one_graph_after_another_are_whole() -> None:
    """Each waits for the last one's code before its own is begun."""
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.exp()
        torch._dynamo.graph_break()
        return y.sum(-1)

    x = torch.randn(4, 8)
    made = torch.compile(function, backend="cuesta", options={"cache": False})(x)
    torch.testing.assert_close(made, function(x))
    graphs = cuesta.report().as_dict()["graphs"]
    assert len(graphs) == 2
    assert all({"load and keep"} <= set(graph["times"]) for graph in graphs)
