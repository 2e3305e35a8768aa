"""Norms of images whose tensors lie in several orders, or whose channels are in groups, in the interpreter: right, and
in the strides that eager gives."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta  # noqa: F401


def _norm(x: Tensor) -> Tensor:
    mean = x.mean((0, 2, 3), keepdim=True)
    variance = (x - mean).square().mean((0, 2, 3), keepdim=True)
    return F.silu((x - mean) * torch.rsqrt(variance + 1e-5))


def _to_channels_last(x: Tensor) -> Tensor:
    return _norm(x).contiguous(memory_format=torch.channels_last)


def _of_groups(x: Tensor) -> tuple[Tensor, Tensor]:
    images = x[..., :3]
    mean = images.mean((0, 1, 2))
    return (images - mean).square().sum((0, 1, 2)), torch.relu(images - mean)


def _of_parts(x: Tensor) -> Tensor:
    return x[:, :14, :14].square().sum((1, 2))


def _both_ways(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.sum(3), x.sum(4)


LAST = torch.channels_last


@pytest.mark.parametrize(
    ("function", "images"),
    [
        pytest.param(_to_channels_last, lambda: torch.randn(4, 256, 16, 16), id="row-major to channels_last"),
        pytest.param(
            lambda x: _to_channels_last(F.avg_pool2d(x, 2)), lambda: torch.randn(8, 256, 16, 16), id="a pool before it"
        ),
        pytest.param(
            lambda x: _norm(F.avg_pool2d(x, 2)),
            lambda: torch.randn(16, 64, 28, 28).to(memory_format=LAST),
            id="a pool in channels_last",
        ),
        pytest.param(_of_groups, lambda: torch.randn(4, 56, 56, 32, 4), id="groups of three"),
        pytest.param(_of_parts, lambda: torch.randn(32, 15, 15, 160), id="parts of images"),
        pytest.param(_both_ways, lambda: torch.randn(32, 16, 16, 16, 16), id="sums both ways"),
    ],
)
def test_numbers(function: Callable[[Tensor], Tensor | tuple[Tensor, ...]], images: Callable[[], Tensor]) -> None:
    x = images()
    compiled = torch.compile(function, backend="cuesta", options={"target": "tt", "cache": False})
    wanted, found = ([r] if isinstance(r, Tensor) else r for r in (function(x), compiled(x)))
    for want, got in zip(wanted, found, strict=True):
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-4)
        assert got.stride() == want.stride()
