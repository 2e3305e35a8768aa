"""Which nodes of a joint graph are merged."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.common_subexpressions import merge_equal_nodes

aten = torch.ops.aten
X = torch.randn(3, 4)


def traced(function: Callable[..., object], *arguments: Tensor) -> torch.fx.GraphModule:
    return make_fx(function, tracing_mode="fake")(*arguments)


def count(gm: torch.fx.GraphModule, op: object) -> int:
    return sum(node.target is op for node in gm.graph.nodes)


def merged(function: Callable[..., object], op: object) -> int:
    gm = traced(function, X)
    merge_equal_nodes(gm.graph)
    gm.graph.lint()
    return count(gm, op)


def test_equal_calls_are_merged_through_what_they_read() -> None:
    gm = traced(lambda x: (x.exp() + 1).sum() * (x.exp() + 1).sum(), X)
    expected = gm(X)
    merge_equal_nodes(gm.graph)
    gm.recompile()
    assert [count(gm, op) for op in (aten.exp.default, aten.add.Tensor, aten.sum.default)] == [1, 1, 1]
    assert torch.equal(gm(X), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x * 1).sum() + (x * 1.0).sum(),
        lambda x: (x * 0.0).sum() + (x * -0.0).sum(),
        lambda x: (x * True).sum() + (x * 1).sum(),
        lambda x: (x * 2).sum() + (x * 3).sum(),
    ],
)
def test_numbers_of_other_types_and_signs_are_others(function: Callable[..., object]) -> None:
    assert merged(function, aten.mul.Tensor) == 2


def test_a_number_that_is_not_itself_is_equal() -> None:
    assert merged(lambda x: (x + float("nan")).sum() * (x + float("nan")).sum(), aten.add.Tensor) == 1


def test_random_numbers_and_empty_memory_stay_apart() -> None:
    assert merged(lambda x: torch.rand_like(x).sum() + torch.rand_like(x).sum(), aten.rand_like.default) == 2
    drawn = merged(lambda x: aten.bernoulli.p(x, 0.5).sum() + aten.bernoulli.p(x, 0.5).sum(), aten.bernoulli.p)
    assert drawn == 2


def test_results_stay_apart() -> None:
    assert merged(lambda x: (x.exp(), x.exp()), aten.exp.default) == 2
    assert merged(lambda x: (x.exp().view(-1), x.exp().sum()), aten.exp.default) == 2


def test_nothing_is_merged_after_a_write() -> None:
    def function(x: Tensor) -> Tensor:
        first = x.exp().sum()
        x.add_(1)
        return first + x.exp().sum()

    assert merged(function, aten.exp.default) == 2


def test_lists_and_named_arguments_count() -> None:
    assert merged(lambda x: torch.cat([x, x]).sum() + torch.cat([x, x], 1).sum(), aten.cat.default) == 2
    assert merged(lambda x: torch.cat([x, x]).sum() + torch.cat([x, x]).sum(), aten.cat.default) == 1


def test_training_loads_no_code_generator_of_inductors(forked: Callable[..., CompletedProcess[str]]) -> None:
    program = """
import sys, torch
f = torch.compile(lambda x: (x.sin() * x.sin()).sum(), backend="cuesta")
f(torch.randn(8, requires_grad=True)).backward()
print([name for name in sys.modules if name in ("torch._inductor.lowering", "torch._inductor.select_algorithm")])
"""
    found = forked(program)
    assert found.stdout.strip() == "[]", found.stderr
