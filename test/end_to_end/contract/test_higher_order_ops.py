"""Higher-order ops (contract, point 14): the steps themselves run in Python, all else is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._higher_order_ops import associative_scan, scan
from torch._higher_order_ops.invoke_subgraph import mark_compile_region
from torch._higher_order_ops.while_loop import while_loop
from torch.testing import assert_close

import cuesta

Check = Callable[..., Any]


def chosen(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: torch.sin(y) + 1, lambda y: torch.cos(y) * 2, (x * 2,)) + 1


def steps_in_python() -> dict[str, int]:
    """What the report says ran between programs, with its count."""
    graphs = cuesta.report().as_dict()["graphs"]
    return {c["op"]: c["count"] for graph in graphs for c in graph["aten_calls"] if c["route"] == "Python"}


def test_cond(same_as_eager: Check, cuesta_only: None) -> None:
    compiled = same_as_eager(chosen, torch.ones(4))
    assert_close(compiled(-torch.ones(4)), chosen(-torch.ones(4)))
    assert steps_in_python() == {"cond": 1}
    kernels = [k for graph in cuesta.report().as_dict()["graphs"] for k in graph["kernels"]]
    assert len(kernels) >= 4, "before and after it, and each branch"


@pytest.mark.parametrize("sign", [1, -1])
def test_gradients_of_cond(sign: int, backend: str) -> None:
    x = (sign * torch.rand(4)).requires_grad_()
    (actual,) = torch.autograd.grad(torch.compile(chosen, backend=backend, fullgraph=True)(x).sum(), x)
    (expected,) = torch.autograd.grad(chosen(x).sum(), x)
    assert_close(actual, expected)


def test_cond_within_a_loop(same_as_eager: Check) -> None:
    def collatz(n: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
        def body(n: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
            return torch.cond(n.sum() % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, (n,)), steps + 1

        return while_loop(lambda n, steps: n.sum() != 1, body, (n, steps))

    compiled = same_as_eager(collatz, torch.tensor([7]), torch.tensor([0]))
    assert compiled(torch.tensor([27]), torch.tensor([0]))[1].item() == 111


def test_while_loop(same_as_eager: Check) -> None:
    def grown(i: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return while_loop(lambda i, x: i.sum() < 5, lambda i, x: (i + 1, torch.tanh(x @ w)), (i, x))

    same_as_eager(grown, torch.zeros(1), torch.randn(3, 4), torch.randn(4, 4))


def recurrent(state: Tensor, xs: Tensor) -> tuple[Tensor, Tensor]:
    return scan(lambda s, x: (torch.tanh(s + x), s * x), state, xs, dim=0)


def test_scan(same_as_eager: Check) -> None:
    same_as_eager(recurrent, torch.zeros(4), torch.randn(3, 4))
    # The slices of a transposed input are laid out otherwise than in the graph of one step.
    same_as_eager(recurrent, torch.zeros(4), torch.randn(4, 3).t())


def test_gradients_of_scan(backend: str) -> None:
    state, xs = torch.randn(4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    run = torch.compile(recurrent, backend=backend, fullgraph=True)
    actual = torch.autograd.grad(sum(t.sum() for t in run(state, xs)), (state, xs))
    expected = torch.autograd.grad(sum(t.sum() for t in recurrent(state, xs)), (state, xs))
    assert_close(actual, expected)


def test_associative_scan(backend: str) -> None:
    def running(x: Tensor) -> Tensor:
        return associative_scan(torch.add, x, dim=0, combine_mode="generic")

    x = torch.randn(5, 4)
    assert_close(torch.compile(running, backend=backend, fullgraph=True)(x), x.cumsum(0))


def test_a_marked_region_is_compiled_once(backend: str) -> None:
    @mark_compile_region
    def layer(x: Tensor, w: Tensor) -> Tensor:
        return torch.sin(x @ w)

    def layers(x: Tensor, w: Tensor) -> Tensor:
        return layer(layer(layer(x, w), w), w) + 1

    x, w = torch.rand(4, 4, requires_grad=True), torch.rand(4, 4, requires_grad=True)
    y = torch.compile(layers, backend=backend, fullgraph=True)(x, w)
    assert_close(y, layers(x, w))
    assert_close(torch.autograd.grad(y.sum(), (x, w)), torch.autograd.grad(layers(x, w).sum(), (x, w)))
    if backend == "cuesta":
        assert steps_in_python() == {"invoke_subgraph": 3}
        names = [graph["name"] for graph in cuesta.report().as_dict()["graphs"]]
        assert len([name for name in names if "fw_subgraph" in name]) == 1
