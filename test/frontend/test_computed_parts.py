"""A training step reads parts of a saved concatenation, which it would compute anew from other saved values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

aten = torch.ops.aten
Split = Callable[..., tuple[Callable[..., Any], list[torch.fx.Graph]]]


def two_parts(x: Tensor, y: Tensor) -> Tensor:
    """Activations whose gradients read their results."""
    made = torch.cat([x.cumsum(-1).relu(), y.cumsum(-1).relu()])
    return (made @ made.t()).sin().sum()


def also_read_before(x: Tensor, y: Tensor) -> Tensor:
    """What the activation reads is saved for another gradient, too."""
    a = x.cumsum(-1)
    made = torch.cat([a.relu(), y.cumsum(-1).relu()])
    return (made @ made.t()).sin().sum() + (a @ a).sin().sum()


def short_runs(x: Tensor, y: Tensor) -> Tensor:
    made = torch.cat([x[:, :8].cumsum(-1).relu(), y], 1)
    return (made @ made.t()).sin().sum()


def returned(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The caller keeps what the activation reads."""
    a = x.cumsum(-1)
    made = torch.cat([a.relu(), y])
    return (made @ made.t()).sin().sum(), a


@pytest.mark.parametrize(
    ("function", "slices", "saved"), [(two_parts, 2, 2), (also_read_before, 1, 4), (short_runs, 0, 3), (returned, 0, 3)]
)
def test_parts(function: Callable[..., Any], slices: int, saved: int, split: Split) -> None:
    """`saved` counts the concatenation, products' results, and what activations read."""
    torch.manual_seed(0)
    tensors = [torch.randn(32, 32, requires_grad=True) for _ in range(2)]
    compiled, graphs = split(function)
    ours, eager = (_gradients(run(*tensors), tensors) for run in (compiled, function))
    torch.testing.assert_close(ours, eager)
    forward, backward = graphs
    results: Any = forward.output_node().args[0]
    assert len({n for n in results[1:] if n.op == "call_function"}) == saved
    found = backward.find_nodes(op="call_function", target=aten.slice.Tensor)
    assert sum(node.args[0].name.startswith("cat") for node in found) == slices


def _gradients(result: Any, tensors: list[Tensor]) -> list[Tensor]:
    loss = result if isinstance(result, Tensor) else result[0]
    return list(torch.autograd.grad(loss, tensors))
