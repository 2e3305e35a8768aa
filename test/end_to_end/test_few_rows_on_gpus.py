"""A few rows, as in a decoding step of several texts, on a GPU: products by large weights are kernels of ours, with
what follows them. The interpreter of tt runs them beside eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta

WIDTH, INNER = 512, 4096


class Gated(torch.nn.Module):
    """A gated layer with its norm and its residual."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = torch.nn.RMSNorm(WIDTH)
        self.gate, self.up = (torch.nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(wide)) * self.up(wide))


# With each shape its kernels: the norm; gate and up with what joins them; down in parts; their sum, with the bias and
# the residual, but for a residual that a reshape parts from the sum.
@pytest.mark.parametrize(
    ("shape", "count"), [((2, WIDTH), 4), ((8, 1, WIDTH), 4), ((3, 5, WIDTH), 5), ((16, WIDTH), 4)]
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_results(shape: tuple[int, ...], count: int, dtype: torch.dtype) -> None:
    model, x = Gated(), torch.randn(shape).to(dtype)
    with torch.no_grad():
        exact = model.double()(x.double())
        eager = model.to(dtype)(x)
        actual = torch.compile(model, backend="cuesta", options={"target": "tt"}, dynamic=False)(x)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()
    (graph,) = cuesta.report().as_dict()["graphs"]
    assert not graph["aten_calls"]
    assert len(graph["kernels"]) == count
