"""Reads at computed positions in kernels for GPUs, run by the interpreter of target "tt"."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F


def _compiled(function: Any, *inputs: torch.Tensor) -> Any:
    return torch.compile(function, backend="cuesta", fullgraph=True, options={"target": "tt", "cache": False})(*inputs)


def _half_turned(x: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


def test_rotary_embedding() -> None:
    def rotate(x: torch.Tensor, frequencies: torch.Tensor) -> torch.Tensor:
        angles = (frequencies[:, None] @ torch.arange(48.0)[None]).T
        angles = torch.cat([angles, angles], dim=-1)[None, None]
        heads = x.view(2, 48, 9, 64).transpose(1, 2)
        return heads * angles.cos() + _half_turned(heads) * angles.sin()

    x, frequencies = torch.randn(2, 48, 576), torch.rand(32)
    torch.testing.assert_close(_compiled(rotate, x, frequencies), rotate(x, frequencies))


def test_rows_that_share_looked_up_positions() -> None:
    def read(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x[..., at] + 1

    x, at = torch.randn(6, 40, 70), torch.randint(-70, 70, (9, 130))
    torch.testing.assert_close(_compiled(read, x, at), read(x, at))


def test_gather() -> None:
    def read(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return x.gather(-1, at.expand(x.shape[0], -1, -1)) * 2

    x, at = torch.randn(24, 16, 100), torch.randint(100, (16, 300))
    torch.testing.assert_close(_compiled(read, x, at), read(x, at))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_resized_images(kind: torch.dtype) -> None:
    def resize(x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=(24, 27), mode="bicubic", align_corners=False)

    x = torch.randn(4, 3, 30, 29).to(kind)
    exact = resize(x.float()).to(kind)
    torch.testing.assert_close(_compiled(resize, x), exact, atol=0.01, rtol=0.01)


def test_folded_windows() -> None:
    def fold(x: torch.Tensor) -> torch.Tensor:
        return F.fold(x, (28, 28), 3, padding=1, stride=2) * 0.5

    x = torch.randn(2, 9 * 8, 14 * 14)
    torch.testing.assert_close(_compiled(fold, x), fold(x))


def test_reversed_and_pooled_rows() -> None:
    def read(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.flip(-1) + 1, F.max_pool2d(x, 3, 2, 1)

    x = torch.randn(2, 8, 33, 50)
    torch.testing.assert_close(_compiled(read, x), read(x))
