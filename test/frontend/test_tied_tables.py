"""The gradient of an embedding's table that something else reads too: rows are added to what that gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

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
