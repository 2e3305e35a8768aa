"""Attention that a model spells out, with terms of its own, is one kernel on a GPU; the interpreter of tt runs it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cuesta

BATCH, HEADS, LENGTH, WIDTH = 2, 3, 70, 32
Attention = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def with_a_bias(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """As transformers' eager attention: scores in the type of the model, their softmax in f32."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(WIDTH) + bias
    return scores.softmax(-1, dtype=torch.float32).to(q.dtype) @ v


def with_a_cap(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    scores = 5 * torch.tanh(q.float() @ k.float().transpose(-2, -1) / 5) + bias
    return scores.softmax(-1).to(q.dtype) @ v


def of_merged_heads(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """As translation models spell it: batch and heads of strided tensors are one dim for `bmm`, and the mask between
    has none for the heads."""

    def merged(x: Tensor) -> Tensor:
        return x.transpose(1, 2).contiguous().transpose(1, 2).reshape(-1, LENGTH, WIDTH)

    scores = torch.bmm(merged(q) * WIDTH**-0.5, merged(k).transpose(1, 2)).view(BATCH, HEADS, LENGTH, LENGTH)
    masked = torch.maximum(scores + bias[:BATCH, None], torch.full((), -10000.0, dtype=q.dtype))
    weights = masked.view(-1, LENGTH, LENGTH).softmax(-1)
    return torch.bmm(weights, merged(v)).view(BATCH, HEADS, LENGTH, WIDTH).transpose(1, 2).contiguous().transpose(1, 2)


def inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    q, k, v = (torch.randn(BATCH, HEADS, LENGTH, WIDTH).bfloat16() for _ in range(3))
    bias = torch.randn(HEADS, LENGTH, LENGTH).bfloat16()
    bias[:, :, 50:] = -torch.inf
    bias[1, 7] = -torch.inf  # a row that sees nothing is NaN
    return q, k, v, bias


@pytest.mark.parametrize("attention", [with_a_bias, with_a_cap, of_merged_heads])
def test_one_kernel(attention: Attention) -> None:
    given = inputs()
    actual = torch.compile(attention, backend="cuesta", options={"target": "tt"}, dynamic=False)(*given)
    exact, eager = attention(*(x.double() for x in given)), attention(*given)
    assert torch.equal(actual.isnan(), exact.isnan())
    seen = ~exact.isnan()
    assert (actual - exact)[seen].norm() <= 2 * (eager - exact)[seen].norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert len(graph["kernels"]) == 1
    assert not graph["aten_calls"]


@pytest.mark.parametrize("attention", [with_a_bias, with_a_cap, of_merged_heads])
def test_gradients(attention: Attention) -> None:
    def gradients(run: Attention, dtype: torch.dtype) -> tuple[Tensor, ...]:
        q, k, v, bias = (x.to(dtype) for x in inputs())
        given = [x.requires_grad_() for x in (q, k, v, bias.where(bias.isfinite(), -5).detach())]
        return torch.autograd.grad(run(*given).sum(), given)

    compiled = torch.compile(attention, backend="cuesta", options={"target": "tt"}, dynamic=False)
    actual = gradients(compiled, torch.bfloat16)
    eager, exact = gradients(attention, torch.bfloat16), gradients(attention, torch.float64)
    for ours, theirs, right in zip(actual, eager, exact, strict=True):
        assert (ours - right).norm() <= 2 * (theirs - right).norm()
