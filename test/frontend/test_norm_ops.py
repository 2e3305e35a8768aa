"""The result of a norm from its statistics: a custom op that gives what the norm gives."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta
import cuesta.frontend.decompositions.norm_ops  # defines the op

aten, ops = torch.ops.aten, torch.ops.cuesta


def from_statistics(x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    groups = mean.shape[1] if mean.dim() == 2 else 0
    return torch.relu(ops.normalised(x, mean, rstd, weight, bias, groups))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [0, 2])
def test_the_op_gives_what_the_norm_gives(dtype: torch.dtype, affine: bool, groups: int) -> None:
    x = 3 + torch.randn(4, 6, 5, 8)
    count = 6 if groups else 8
    weight, bias = (torch.rand(count) + 0.5, torch.randn(count)) if affine else (None, None)
    if groups:
        y, mean, rstd = aten.native_group_norm(x, weight, bias, 4, 6, 40, groups, 1e-5)
    else:
        y, mean, rstd = aten.native_layer_norm(x, [8], weight, bias, 1e-5)
    given = [x.to(dtype), mean, rstd, *(None if v is None else v.to(dtype) for v in (weight, bias))]
    tolerance = {"atol": 1e-5, "rtol": 1e-5} if dtype is torch.float32 else {"atol": 0.06, "rtol": 0.02}
    torch._dynamo.reset()
    compiled = torch.compile(from_statistics, backend="cuesta", fullgraph=True)
    for run in (from_statistics, compiled):
        result = run(*given)
        assert result.dtype == dtype
        torch.testing.assert_close(result.float(), torch.relu(y), **tolerance)
    assert "normalised" in str(cuesta.report())
