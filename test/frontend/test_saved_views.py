"""A training step saves a tensor once, and its backward graph makes the views of it that it reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuesta.frontend.fx_nodes import memory_root

Program = Callable[[Tensor, Tensor], Tensor]
Split = Callable[[Program], tuple[Program, list[torch.fx.Graph]]]


def whole_and_rows(x: Tensor, w: Tensor) -> Tensor:
    """The running sum is saved for sin and, as rows of another order, for the product."""
    a = x.cumsum(-1)
    return a.sin().sum() + (a.transpose(0, 1).reshape(32, 32) @ w).sum()


def two_views(x: Tensor, w: Tensor) -> Tensor:
    a = x.cumsum(-1).view(4, 8, 4, 8)
    return (a.view(32, 32) @ w).sum() + (a.view(8, 4, 32) @ w).sum()


def parts(x: Tensor, w: Tensor) -> Tensor:
    a, b = x.cumsum(-1).view(32, 32).split(16)
    return (a @ w).sum() + (b @ w).sin().sum()


def one_part(x: Tensor, w: Tensor) -> Tensor:
    """Two views of less than all: a kernel need not write the rest."""
    a = x.cumsum(-1).view(32, 32)
    return (a[:8] @ w).sum() + (a[8:12] @ w).sum()


def of_an_argument(x: Tensor, w: Tensor) -> Tensor:
    return (x.view(32, 32) @ w).sum() + (x.transpose(0, 1).reshape(32, 32) @ w).sum()


def columns_of_an_argument(x: Tensor, w: Tensor) -> Tensor:
    a, b = x.view(32, 32)[:, :16], x.view(32, 32)[:, 16:]
    return (a @ w[:16]).sum() + (b @ w[16:]).sin().sum()


#: Function, and how many tensors that it computes it saves.
CASES: list[tuple[Program, int]] = [
    *((whole_and_rows, 1), (two_views, 1), (parts, 2), (one_part, 2)),
    *((of_an_argument, 0), (columns_of_an_argument, 1)),
]


@pytest.mark.parametrize(("function", "count"), CASES)
def test_views_of_one_tensor_are_saved_once(function: Program, count: int, split: Split) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((32, 1, 32), (32, 32))]
    compiled, graphs = split(function)
    expected = torch.autograd.grad(function(*tensors), tensors)
    torch.testing.assert_close(torch.autograd.grad(compiled(*tensors), tensors), expected)
    forward, backward = graphs
    results = forward.output_node().args[0][1:]
    computed = [n for n in results if memory_root(n).op == "call_function"]
    assert len(computed) == count
    assert [n for n in results if n.op != "placeholder"] == computed, "an argument is saved, not its views"
    assert len({memory_root(n) for n in computed}) == (1 if function is one_part else count)
    assert [n.name for n in results] == [n.name for n in backward.nodes if n.op == "placeholder"][: len(results)]


def attention_layers(x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
    """Saved of each layer: what q, k and v are parts of, and the result of attention, of which there are two views.

    Without `b` a linear layer is traced as a product of two dims and an "unsafe" view of it."""
    linear = torch.nn.functional.linear
    for _ in range(4):
        x = torch.nn.functional.layer_norm(x, (32,))
        q, k, v = linear(x, w, b).view(2, 16, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        x = torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 16, 32)
        x = linear(x, w[:32], None if b is None else b[:32])
    return x.sum()


@pytest.mark.parametrize("sizes", [[(2, 16, 32), (96, 32), (96,)], [(2, 16, 32), (96, 32)]], ids=["bias", "no bias"])
def test_what_is_handed_over_keeps_its_name_beside_copies_of_calls(sizes: list[tuple[int, ...]], split: Split) -> None:
    torch.manual_seed(0)
    tensors = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in sizes]
    compiled, graphs = split(attention_layers)
    expected = torch.autograd.grad(attention_layers(*tensors), tensors)
    torch.testing.assert_close(torch.autograd.grad(compiled(*tensors), tensors), expected)
    results = graphs[0].output_node().args[0][1:]
    assert [n.name for n in results] == [n.name for n in graphs[1].nodes if n.op == "placeholder"][: len(results)]
