"""Sums and softmaxes over few elements that lie far apart, as kernels of a GPU in the interpreter: right, also where
rows or columns behind them are summed, and where each element is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor


def split_attention(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """The two halves of a ResNeSt's channels: both are written, their sum's mean over pixels is taken."""
    x = torch.relu(x * w[:, None, None])
    halves = x.view(x.shape[0], 2, -1, *x.shape[2:])
    return x, halves.sum(1).mean((2, 3))


def weighed(x: Tensor, w: Tensor) -> Tensor:
    halves = x.view(x.shape[0], 2, -1, *x.shape[2:])
    weights = torch.softmax(halves.amax((3, 4)) * w.view(2, -1), 1)
    return (halves * weights[..., None, None]).sum(1)


def of_four(x: Tensor, w: Tensor) -> Tensor:
    parts = x.view(x.shape[0], 4, -1, *x.shape[2:])
    return torch.softmax(parts * w[0], 1) + parts.amin(1, keepdim=True)


def largest(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    """Two results of one sum: not each by itself."""
    return x.view(x.shape[0], 2, -1, *x.shape[2:]).max(1)


@pytest.mark.parametrize("function", [split_attention, weighed, of_four, largest])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_right(function: Callable[..., object], dtype: torch.dtype, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 128, 13, 11).to(dtype, memory_format=layout)
    w = torch.randn(128).to(dtype)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False})
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(compiled(x, w), function(x, w), rtol=tolerance, atol=tolerance)
