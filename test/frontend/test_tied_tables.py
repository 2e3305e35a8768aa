"""The gradient of an embedding's table that something else reads too: rows are added to what that gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from cuesta.frontend.fx_passes.tied_tables import add_rows_to_tables

Program = Callable[[Tensor, Tensor], Tensor]
Split = Callable[[Program], tuple[Program, list[torch.fx.Graph]]]
GRADIENT = torch.ops.aten.embedding_dense_backward.default


def head(w: Tensor, at: Tensor) -> Tensor:
    return (F.embedding(at, w).tanh() @ w.t()).sum()


def padded(w: Tensor, at: Tensor) -> Tensor:
    return (F.embedding(at, w, padding_idx=3).tanh() @ w.t()).sum()


def two_embeddings(w: Tensor, at: Tensor) -> Tensor:
    return (F.embedding(at, w).tanh() * F.embedding(at + 1, w)).sum()


def two_and_a_head(w: Tensor, at: Tensor) -> Tensor:
    return ((F.embedding(at, w).tanh() * F.embedding(at + 1, w)) @ w.t()).sum()


def alone(w: Tensor, at: Tensor) -> Tensor:
    return F.embedding(at, w).tanh().sum()


def narrow(w: Tensor, at: Tensor) -> Tensor:
    """Rows one by one would be lost in a sum of bf16."""
    return head(w.bfloat16(), at).float()


def scaled(w: Tensor, at: Tensor) -> Tensor:
    return (F.embedding(at, w, scale_grad_by_freq=True).tanh() @ w.t()).sum()


#: Function, and how many tables of zeros its backward graph makes.
CASES: list[tuple[Program, int]] = [
    *((head, 0), (padded, 0), (two_embeddings, 1), (two_and_a_head, 0)),
    *((alone, 1), (narrow, 1), (scaled, 1)),
]


@pytest.mark.parametrize(("function", "tables"), CASES)
def test_rows_are_added_to_the_table(function: Program, tables: int, split: Split) -> None:
    at = torch.tensor([[1, 3, 5], [3, 0, 3]])
    w = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    ours, theirs = w.clone().requires_grad_(), w.clone().requires_grad_()
    compiled, graphs = split(function)
    compiled(ours, at).backward()
    function(theirs, at).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)
    assert len(graphs[1].find_nodes(op="call_function", target=GRADIENT)) == tables


@pytest.mark.parametrize("deterministic", [False, True])
def test_on_a_gpu_one_order_keeps_the_gradient(deterministic: bool) -> None:
    """Kernels there add rows by atomic ops."""

    def total(a: Tensor, b: Tensor, rows: Tensor, at: Tensor) -> Tensor:
        return a @ b + GRADIENT(rows, at, 8, -1, False)

    with FakeTensorMode():
        given = [torch.empty(n, device="cuda") for n in ((8, 2), (2, 4), (6, 4))]
        graph = make_fx(total)(*given, torch.empty(6, dtype=torch.long, device="cuda"))
    torch.use_deterministic_algorithms(deterministic)
    add_rows_to_tables(graph)
    torch.use_deterministic_algorithms(False)
    assert len(graph.graph.find_nodes(op="call_function", target=GRADIENT)) == int(deterministic)
