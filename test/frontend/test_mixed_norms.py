"""Norms of bf16 with f32 weights, as autocast makes them on a CPU, have gradients as exact as eager's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import cuesta

NORMS = {
    "layer norm": (nn.LayerNorm(64), (8, 32, 64)),
    "group norm": (nn.GroupNorm(4, 16), (4, 16, 16, 16)),
    "instance norm": (nn.InstanceNorm2d(16, affine=True), (4, 16, 16, 16)),
}


def train(norm: nn.Module, x: Tensor, weights: Tensor) -> list[Tensor]:
    """The result, and the gradients of x and of the norm's parameters."""
    x = x.clone().requires_grad_()
    y = norm(x)
    y.backward(weights.to(y.dtype))
    return [y.detach(), x.grad, *(p.grad for p in norm.parameters())]


@pytest.mark.parametrize("name", NORMS)
def test_gradients_are_as_exact_as_eagers(name: str) -> None:
    torch.manual_seed(0)
    norm, shape = NORMS[name]
    x, weights = (torch.randn(shape) * 2 + 0.7).bfloat16(), torch.randn(shape).bfloat16()
    exact = train(copy.deepcopy(norm).double(), x.double(), weights.double())
    eager = train(copy.deepcopy(norm), x, weights)
    actual = train(torch.compile(copy.deepcopy(norm), backend="cuesta", fullgraph=True), x, weights)
    for ours, theirs, right in zip(actual, eager, exact, strict=True):
        assert (ours.dtype, ours.stride()) == (theirs.dtype, theirs.stride())
        # Eager adds a layer norm's gradients of weights up in bf16.
        assert (ours.double() - right).norm() <= 1.1 * (theirs.double() - right).norm() + 1e-5 * right.norm()


def test_mean_and_rstd_are_f32_as_in_eager() -> None:
    x, weight = torch.randn(4, 64).bfloat16(), torch.rand(64)

    def statistics(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        return torch.ops.aten.native_layer_norm(x, [64], weight, None, 1e-5)

    for ours, theirs in zip(torch.compile(statistics, backend="cuesta")(x, weight), statistics(x, weight), strict=True):
        assert ours.dtype == theirs.dtype
        torch.testing.assert_close(ours, theirs)
    assert cuesta.report().graphs[-1].fallback is None
