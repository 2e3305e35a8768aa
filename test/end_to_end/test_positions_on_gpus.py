"""Reads at computed positions in kernels for GPUs, run by the interpreter of target "tt"."""

from __future__ import annotations

from typing import Any

import torch


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
