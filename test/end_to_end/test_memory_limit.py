"""`options={"memory_limit": bytes}`: what is measured is within it, or the error comes before anything has run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import BackendCompilerFailed

import cuesta
from cuesta.errors import MemoryLimitError
from cuesta.reports.compile_report import GraphReport
from cuesta.runtime.executable import ARENAS
from cuesta.tools.bench.measuring.memory import measure, predicted_peak

pytestmark = pytest.mark.usefixtures("cuesta_only")

KIB = 1 << 10
#: Elements of a tensor of 256 KiB.
COUNT = 64 * KIB


def limited(function: Callable[..., Any], limit: int | None, **arguments: Any) -> Callable[..., Any]:
    options = {"cache": False, "memory_limit": limit}
    return torch.compile(function, backend="cuesta", options=options, **arguments)


def graphs() -> list[GraphReport]:
    return cuesta.report().graphs


def measured(call: Callable[[], Any]) -> int:
    ARENAS.trim()
    return measure(call).peak


def refused(call: Callable[[], Any]) -> str:
    """The text of the MemoryLimitError that a call ends in."""
    with pytest.raises(BackendCompilerFailed) as caught:
        call()
    assert isinstance(caught.value.inner_exception, MemoryLimitError)
    return str(caught.value.inner_exception)


def products_first(x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
    """Written so that three products are held at once, of which one at a time will do."""
    shared = x @ y
    first, second, third = shared @ x, shared @ y, shared @ z
    return first @ first[0], second @ second[0], third @ third[0]


def test_another_order_of_steps_meets_it() -> None:
    inputs = [torch.randn(256, 256, generator=torch.Generator().manual_seed(i)) for i in range(3)]
    limited(products_first, None)(*inputs)
    usual = graphs()[0].peak_bytes
    torch._dynamo.reset()
    limit = usual - 128 * KIB
    compiled = limited(products_first, limit)
    torch.testing.assert_close(compiled(*inputs), products_first(*inputs), rtol=1e-4, atol=1e-3)
    (graph,) = graphs()
    assert graph.peak_bytes <= limit < usual
    assert graph.memory_limit == {"limit": limit, "by": "buffers freed when dead and another order of steps"}
    assert "another order of steps" in str(cuesta.report())
    assert measured(lambda: compiled(*inputs)) == graph.peak_bytes


def test_buffers_out_of_the_arena_meet_it() -> None:
    """All that this takes is less than what is called a small call, whose arena holds everything."""

    def chain(x: Tensor) -> tuple[Tensor, Tensor]:
        middle = x @ (x @ x)
        return middle @ middle, middle

    x = torch.randn(128, 128, generator=torch.Generator().manual_seed(0)) / 16
    limited(chain, None)(x)
    usual = graphs()[0].peak_bytes
    torch._dynamo.reset()
    compiled = limited(chain, usual - 1)
    torch.testing.assert_close(compiled(x), chain(x), rtol=1e-4, atol=1e-4)
    (graph,) = graphs()
    assert graph.memory_limit == {"limit": usual - 1, "by": "buffers freed when dead"}
    assert measured(lambda: compiled(x)) == graph.peak_bytes < usual


def test_where_it_is_met_anyhow_nothing_changes() -> None:
    x = torch.ones(64)
    limited(torch.sin, 1 << 20)(x)
    (graph,) = graphs()
    assert graph.memory_limit == {"limit": 1 << 20, "by": ""}
    assert "peak 256 B (limit 1.0 MiB)" in str(cuesta.report())


def test_refused_before_anything_runs() -> None:
    def grow(x: Tensor) -> Tensor:
        x.add_(1)
        return x.sort().values.cumsum(0)

    x = torch.zeros(COUNT)
    text = refused(lambda: limited(grow, 300 * KIB)(x))
    assert "memory_limit: a call of this inference graph would take" in text
    assert "may take 300.0 KiB (307200 bytes)" in text
    assert "256.0 KiB of kernel cumsum" in text
    assert "aten.sort.default" in text
    assert not x.any()


LAYERS = 4


def model() -> tuple[torch.nn.Module, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(LAYERS)]
        return torch.nn.Sequential(*layers), torch.randn(2048, 32)


def test_training_saves_less() -> None:
    module, x = model()

    def loss(x: Tensor) -> Tensor:
        return module(x).square().mean()

    loss(x).backward()
    expected = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    limited(loss, None)(x).backward()
    usual = predicted_peak(cuesta.report().as_dict()["graphs"])
    torch._dynamo.reset()
    module.zero_grad()
    compiled = limited(loss, usual * 9 // 10)
    compiled(x).backward()
    assert len(graphs()) == 2
    assert predicted_peak(cuesta.report().as_dict()["graphs"]) <= usual * 9 // 10
    for parameter, gradient in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)
    module.zero_grad()
    assert measured(lambda: compiled(x).backward()) <= usual * 9 // 10


def test_training_is_refused_before_its_forward_graph_runs() -> None:
    module, x = model()

    def loss(x: Tensor, state: Tensor) -> Tensor:
        state.add_(1)
        return module(x).square().mean()

    state = torch.zeros(1)
    text = refused(lambda: limited(loss, 300 * KIB)(x, state))
    assert "graph would take" in text
    assert not state.any()


def test_each_set_of_sizes_has_a_plan() -> None:
    def function(x: Tensor) -> Tensor:
        return x.sort().values.cumsum(0)

    compiled = limited(function, 1 << 20, dynamic=True)
    small, large = torch.ones(COUNT // 2), torch.ones(4 * COUNT)
    torch.testing.assert_close(compiled(small), function(small))
    assert "memory_limit" in (graphs()[0].specialised or "")
    with pytest.raises(MemoryLimitError, match="would take"):
        compiled(large)
    torch.testing.assert_close(compiled(small), function(small))


def test_what_has_no_plan_is_refused() -> None:
    def function(x: Tensor) -> Tensor:
        return x.to("meta") * 2

    text = refused(lambda: limited(function, 1 << 20)(torch.ones(4)))
    assert "is not known before it runs" in text
