"""`options={"tiered": True}`: right before, while and after the program takes over; nothing here waits for a clock.

But for the first test, the background is a stand-in (`worker`) that compiles in its thread when the test opens a gate.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cuesta
from cuesta.driver.background.service import Job, Service
from cuesta.driver.op_by_op import op_by_op
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary.pool import Worker
from cuesta.lowering.tt_to_binary.processes import Child
from cuesta.reports.compile_report import GraphReport

pytestmark = pytest.mark.usefixtures("cuesta_only")


def tiered(function: Callable[..., Any], *, dynamic: bool | None = None, **options: Any) -> Callable[..., Any]:
    options = {"tiered": True, "cache": False, **options}
    return torch.compile(function, backend="cuesta", options=options, dynamic=dynamic)


def tiers() -> list[str]:
    return [(graph.tier or "").split(":")[0] for graph in cuesta.report().graphs]


def open_gate(worker: Any) -> None:
    """Lets what was asked for be compiled, and waits for that."""
    worker.gate.set()
    assert cuesta.wait_for_tiers()


def work(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    z = torch.softmax(x @ y, -1)
    return z.t(), (z * 2).sum(0)


def inputs() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(8, 16, generator=generator), torch.randn(16, 4, generator=generator)


def test_another_process_compiles() -> None:
    compiled = tiered(work)
    expected = work(*inputs())
    torch.testing.assert_close(compiled(*inputs()), expected)
    assert cuesta.wait_for_tiers()
    (graph,) = cuesta.report().graphs
    assert (graph.tier or "").startswith("full: after")
    assert graph.kernels
    torch.testing.assert_close(compiled(*inputs()), expected)


def test_calls_are_answered_before_and_after(worker: Any) -> None:
    compiled = tiered(work)
    expected = work(*inputs())
    for _ in range(2):
        results = compiled(*inputs())
        torch.testing.assert_close(results, expected)
        assert [r.stride() for r in results] == [e.stride() for e in expected]
    assert tiers() == ["first"]
    assert not cuesta.report().graphs[0].kernels
    assert "op by op, while the program is compiled" in str(cuesta.report())
    open_gate(worker)
    assert tiers() == ["full"]
    assert "without a cache" in str(cuesta.report())
    results = compiled(*inputs())
    torch.testing.assert_close(results, expected)
    assert [r.stride() for r in results] == [e.stride() for e in expected]
    assert len(cuesta.report().graphs) == 1


def test_threads_call_while_it_takes_over(worker: Any) -> None:
    compiled = tiered(work)
    expected = work(*inputs())
    compiled(*inputs())
    wrong: list[Any] = []
    changed = threading.Event()

    def call() -> None:
        last = False
        while not last:
            last = changed.is_set()
            if not all(torch.allclose(a, b, atol=1e-5) for a, b in zip(compiled(*inputs()), expected, strict=True)):
                wrong.append(tiers())

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    open_gate(worker)
    changed.set()
    for thread in threads:
        thread.join()
    assert not wrong
    assert tiers() == ["full"]


@pytest.mark.parametrize("late", ["forward", "backward"])
def test_tiers_of_a_step_may_differ(worker: Any, late: str) -> None:
    """The forward graph runs in one tier and the backward graph in the other."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
        )
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0)).to(memory_format=torch.channels_last)

    def gradients(function: Callable[[Tensor], Tensor], between: Callable[[], None]) -> list[Tensor]:
        model.zero_grad()
        model[1].reset_running_stats()
        loss = function(x)
        between()
        loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None] + [model[1].running_var.clone()]

    def loss(x: Tensor) -> Tensor:
        return model(x).square().mean()

    expected = gradients(loss, lambda: None)
    compiled = tiered(loss)
    if late == "forward":
        actual = gradients(compiled, lambda: open_gate(worker))  # the backward graph is asked for behind an open gate
        torch.testing.assert_close(actual, expected)
        assert cuesta.wait_for_tiers()
        actual = gradients(compiled, lambda: None)
    else:
        actual = gradients(compiled, lambda: None)
        torch.testing.assert_close(actual, expected)
        assert tiers() == ["first", "first"]
        actual = gradients(compiled, lambda: open_gate(worker))
    torch.testing.assert_close(actual, expected)
    assert tiers() == ["full", "full"]


def test_random_numbers_and_mutation_are_eagers_in_both(worker: Any) -> None:
    def function(x: Tensor) -> Tensor:
        x.add_(1)
        return torch.nn.functional.dropout(x, 0.5, training=True)

    def run(called: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.arange(64.0)
        torch.manual_seed(3)
        return called(x), x, torch.rand(1)

    expected = run(function)
    compiled = tiered(function)
    torch.testing.assert_close(run(compiled), expected, rtol=0, atol=0)
    open_gate(worker)
    torch.testing.assert_close(run(compiled), expected, rtol=0, atol=0)
    assert tiers() == ["full"]


def test_sizes_of_the_call(worker: Any) -> None:
    def function(x: Tensor) -> tuple[Tensor, int]:
        return torch.softmax(x, 0).t(), x.shape[0] * 2

    compiled = tiered(function, dynamic=True)
    for is_open in (False, True):
        for rows in (5, 9):
            x = torch.randn(rows, 7, generator=torch.Generator().manual_seed(rows))
            torch.testing.assert_close(compiled(x), function(x))
            assert compiled(x)[0].stride() == (1, 7)
        if not is_open:
            assert tiers() == ["first"]
            open_gate(worker)
    assert tiers() == ["full"]


def test_two_graphs(worker: Any) -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.exp()

    x = torch.linspace(0, 1, 16)
    compiled = tiered(function)
    torch.testing.assert_close(compiled(x), function(x))
    assert tiers() == ["first", "first"]
    open_gate(worker)
    assert tiers() == ["full", "full"]
    torch.testing.assert_close(compiled(x), function(x))


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def test_an_error_leaves_the_first_tier(worker: Any) -> None:
    worker.failure = CompileError("no room")
    heard = Heard()
    logging.getLogger("cuesta").addHandler(heard)
    try:
        compiled = tiered(work)
        compiled(*inputs())
        open_gate(worker)
    finally:
        logging.getLogger("cuesta").removeHandler(heard)
    torch.testing.assert_close(compiled(*inputs()), work(*inputs()))
    (graph,) = cuesta.report().graphs
    assert graph.tier is not None and graph.tier.startswith("first") and graph.tier.endswith(": no room")
    assert any("stays at its first tier" in line and "no room" in line for line in heard.lines)


def test_what_the_cache_has_is_there_at_once(worker: Any, tmp_path: Path) -> None:
    options = {"cache": True, "cache_dir": str(tmp_path)}
    tiered(work, **options)(*inputs())
    open_gate(worker)
    assert "without a cache" not in str(cuesta.report())
    torch._dynamo.reset()
    torch.testing.assert_close(tiered(work, **options)(*inputs()), work(*inputs()))
    tier = cuesta.report().graphs[0].tier
    assert tier is not None and tier.startswith("full: ") and "cache" in tier


@torch.library.custom_op("cuesta_test_tiered::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


def test_what_cannot_be_made_elsewhere_is_made_at_once(worker: Any, tmp_path: Path) -> None:
    x = torch.ones(4)
    torch.testing.assert_close(tiered(torch.sin, dump=str(tmp_path))(x), x.sin())
    torch.testing.assert_close(tiered(torch.sin, memory_limit=1 << 20)(x), x.sin())
    assert not worker.asked.is_set()
    reasons = [(graph.tier or "").partition(": ")[2] for graph in cuesta.report().graphs]
    assert "dump" in reasons[0] and "memory_limit" in reasons[1]


def test_a_fork_waits_for_nothing(worker: Any) -> None:
    compiled = tiered(work)
    compiled(*inputs())
    assert worker.asked.wait()
    child = os.fork()
    if child == 0:  # no assert: what pytest would make of it is the parent's
        (graph,) = cuesta.report().graphs
        is_told = graph.tier is not None and graph.tier.startswith("first") and "forked" in graph.tier
        os._exit(0 if is_told and cuesta.wait_for_tiers() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert tiers() == ["first"]
    open_gate(worker)
    assert tiers() == ["full"]


def test_the_end_of_the_process_waits_for_no_program() -> None:
    """The worker never answers; `end` is what runs when Python exits."""
    silent = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    service = Service(lambda: Worker(Child(silent)))
    failures: list[str] = []
    service.submit(Job(b"x", lambda _: None, failures.append))
    thread, worker = service._thread, service._worker
    assert thread is not None
    assert worker is not None
    service.end()
    assert not thread.is_alive()
    assert not worker.alive
    assert failures == []


def test_results_of_the_first_tier_are_laid_out_as_traced() -> None:
    """A program may read them, and does not look at their strides."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    turned = graph.call_function(torch.ops.aten.t.default, (x,))
    turned.meta["val"] = torch.empty(3, 2, device="meta")
    graph.output((turned, x))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    given = torch.arange(6.0).view(2, 3)
    result, same = op_by_op(gm)([given])
    assert result.stride() == (2, 1)
    assert torch.equal(result, given.t())
    assert same is given


def test_the_report_of_a_program_says_nothing_of_tiers() -> None:
    assert "tier" not in GraphReport("inference", tier="full").program()
