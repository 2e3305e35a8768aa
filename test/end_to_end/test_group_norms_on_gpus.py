"""Norms over groups of a few channels of channels_last images, in the interpreter of GPU kernels: columns first."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import cuesta


def block(x: Tensor, w: Tensor, b: Tensor, t: Tensor) -> Tensor:
    return F.silu(F.group_norm(x + t[:, :, None, None], 16, w, b))


@pytest.mark.parametrize(("channels", "offset"), [(64, 0.0), (64, 100.0), (192, 1.0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_groups(channels: int, offset: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    side = 184 if channels == 64 else 106
    x = (torch.randn(2, channels, side, side) + offset).to(dtype, memory_format=torch.channels_last)
    w, b = torch.randn(channels).to(dtype), torch.randn(channels).to(dtype)
    t = torch.randn(2, channels).to(dtype)
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="cuesta", options={"target": "tt", "cache": False})
    actual, exact = compiled(x, w, b, t), block(x.double(), w.double(), b.double(), t.double())
    assert (actual - exact).norm() <= 2 * (block(x, w, b, t) - exact).norm() + 1e-6 * exact.norm()
    # The sum with t, as few images have their channels' sums in parts; these sums, the groups' sums, and the norm.
    assert len(cuesta.report().as_dict()["graphs"][-1]["kernels"]) == 4
