"""A training step saves a concatenation once, and slices it for what begins or lies in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cuesta.tools.models.densenet import DenseLayer

aten = torch.ops.aten
Graphs = list[torch.fx.Graph]
Split = Callable[..., tuple[Callable[..., Any], Graphs]]


def saved(forward: torch.fx.Graph) -> list[torch.fx.Node]:
    results: Any = forward.output_node().args[0]
    return [n for n in dict.fromkeys(results[1:]) if n.op == "call_function"]


def parts(backward: torch.fx.Graph) -> list[tuple[int, int, int]]:
    """(dim, start, end) of each slice of an argument."""
    found = [n for n in backward.nodes if n.target is aten.slice.Tensor and n.args[0].op == "placeholder"]
    return sorted(n.args[1:4] for n in found if not n.args[0].name.startswith("tangents"))


def gradients(run: Callable[..., Any], tensors: list[Tensor]) -> list[Tensor]:
    for tensor in tensors:
        tensor.grad = None
    result = run()
    (result if isinstance(result, Tensor) else result[0]).backward()
    return [tensor.grad for tensor in tensors if tensor.grad is not None]


def test_a_block_of_layers_saves_its_last_concatenation(split: Split) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 32, 8, 8, dtype=torch.float64)
    block = nn.Sequential(*(DenseLayer(32 + 16 * i, 16) for i in range(3)), nn.BatchNorm2d(80)).double()
    compiled, graphs = split(block)
    weights = list(block.parameters())
    expected = gradients(lambda: block(x).sin().sum(), weights)
    torch.testing.assert_close(gradients(lambda: compiled(x).sin().sum(), weights), expected)
    forward, backward = graphs
    assert [tuple(n.meta["val"].shape) for n in saved(forward) if n.target is aten.cat.default] == [(2, 80, 8, 8)]
    assert parts(backward) == [(1, 0, 48), (1, 0, 64)]


def within(x: Tensor, y: Tensor) -> Tensor:
    a, b = x.cumsum(-1), y.cumsum(-1)
    return a.sin().sum() + torch.cat([y, b, a]).cumsum(0).sin().sum() + torch.cat([y, b, a]).sin().sum()


def read_by_a_product(x: Tensor, y: Tensor) -> Tensor:
    a = x.cumsum(-1)
    return (a @ a).sum() + torch.cat([a, y]).sin().sum()


def other_dtype(x: Tensor, y: Tensor) -> Tensor:
    a = x.half().cumsum(-1)
    return a.sin().sum() + torch.cat([a, y]).sin().sum()


def short_runs(x: Tensor, y: Tensor) -> Tensor:
    a = x[:, :8].cumsum(-1)
    return a.sin().sum() + torch.cat([a, y], 1).sin().sum()


def long_runs(x: Tensor, y: Tensor) -> Tensor:
    a = x[:, :16].cumsum(-1)
    return a.sin().sum() + torch.cat([a, y], 1).sin().sum()


def returned(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    a = x.cumsum(-1)
    return a.sin().sum() + torch.cat([a, y]).sin().sum(), a


#: Function, how many values it saves beside its arguments, which parts of them its backward graph reads.
CASES: list[tuple[Callable[..., Any], int, list[tuple[int, int, int]]]] = [
    (within, 2, [(0, 64, 96)]),
    (long_runs, 1, [(1, 0, 16)]),
    (short_runs, 2, []),
    (read_by_a_product, 2, []),
    (other_dtype, 2, []),
    (returned, 2, []),
]


@pytest.mark.parametrize(("function", "count", "expected"), CASES)
def test_parts_of_a_saved_concatenation(
    function: Callable[..., Any],
    count: int,
    expected: list[tuple[int, int, int]],
    split: Split,
) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(32, 32, requires_grad=True) for _ in range(2)]
    compiled, graphs = split(function)
    eager = gradients(lambda: function(*tensors), tensors)
    torch.testing.assert_close(gradients(lambda: compiled(*tensors), tensors), eager)
    values = saved(graphs[0])
    assert aten.cat.default in [n.target for n in values]
    assert (len(values), parts(graphs[1])) == (count, expected)
