"""Attention of f64 on a CPU: torch before 2.13 traces its logsumexp as f32, and its kernel gives f64."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.utils.checkpoint import checkpoint

import cuesta

attention_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def inputs(length: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.randn(2, 4, length, 16, dtype=dtype, requires_grad=True) for _ in range(3)]


def gradients(function: Any, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(function(*leaves).square().sum(), leaves)


def recomputed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    kept: Tensor = checkpoint(lambda q, k, v: sdpa(q, k, v).sin(), q, k, v, use_reentrant=False)
    return kept


# The target tt keeps attention of f64 whole, as an op of cuesta's that is traced by itself.
@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("function", [sdpa, recomputed], ids=["saved", "recomputed"])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "symbolic"])
def test_gradients_of_f64_are_exact(function: Any, dynamic: bool, target: str) -> None:
    compiled = torch.compile(function, backend="cuesta", dynamic=dynamic, options={"target": target})
    for length in (4, 12):
        leaves = inputs(length)
        # A logsumexp rounded to f32 would leave seven digits of them.
        torch.testing.assert_close(gradients(compiled, leaves), gradients(function, leaves), atol=1e-13, rtol=1e-12)
    calls = {call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls}
    assert "aten._scaled_dot_product_flash_attention_for_cpu_backward.default" in calls


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_logsumexp_itself_has_eagers_type(dtype: torch.dtype) -> None:
    leaves = [x.detach() for x in inputs(4, dtype)]
    compiled = torch.compile(lambda *xs: attention_on_cpu(*xs), backend="cuesta")
    torch.testing.assert_close(compiled(*leaves), attention_on_cpu(*leaves))
