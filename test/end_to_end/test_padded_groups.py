"""Grouped convolutions whose groups cuDNN has no kernels for, on the way to a GPU (target "tt"): padded by groups."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import cuesta


class Block(nn.Module):
    """Groups of `width` channels that make groups of `results`, as in RegNet."""

    def __init__(self, width: int, results: int, stride: int, *, bias: bool) -> None:
        super().__init__()
        self.grouped = nn.Conv2d(3 * width, 3 * results, 3, stride, 1, groups=3, bias=bias)
        self.norm = nn.BatchNorm2d(3 * results)
        self.last = nn.Conv2d(3 * results, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.norm(self.grouped(torch.relu(x)))))


CASES = [(24, 24, 1, False), (40, 40, 2, True), (24, 8, 1, True), (12, 20, 2, False)]


@pytest.mark.parametrize(("width", "results", "stride", "bias"), CASES)
@pytest.mark.parametrize("last", [False, True])
def test_evaluation(width: int, results: int, stride: int, bias: bool, last: bool) -> None:
    torch.manual_seed(0)
    block = Block(width, results, stride, bias=bias).eval()
    x = torch.randn(2, 3 * width, 9, 10)
    exact = copy.deepcopy(block).double()(x.double())
    block, x = block.bfloat16(), x.bfloat16().to(memory_format=torch.channels_last if last else torch.contiguous_format)
    torch._dynamo.reset()
    with torch.no_grad():
        eager = block(x)
        made = torch.compile(block, backend="cuesta", options={"target": "tt", "cache": False}, dynamic=False)(x)
    assert made.stride() == eager.stride()
    assert (made - exact).norm() <= 1.5 * (eager - exact).norm() + 1e-3 * exact.norm()


@pytest.mark.parametrize(("width", "results", "stride", "bias"), CASES)
def test_gradients(width: int, results: int, stride: int, bias: bool) -> None:
    torch.manual_seed(0)
    block = Block(width, results, stride, bias=bias)
    x = torch.randn(4, 3 * width, 9, 10)

    def gradients(module: nn.Module, given: Tensor, run: object) -> list[Tensor]:
        given = given.clone().requires_grad_()
        run(given).square().mean().backward()  # type: ignore[operator]
        assert given.grad is not None
        return [given.grad, *(p.grad.clone() for p in module.parameters() if p.grad is not None)]

    wide = copy.deepcopy(block).double()
    exact = gradients(wide, x.double(), wide)
    torch._dynamo.reset()
    compiled = torch.compile(block, backend="cuesta", options={"target": "tt", "cache": False}, dynamic=False)
    made = gradients(block, x, compiled)
    for ours, right in zip(made, exact, strict=True):
        assert ours.shape == right.shape
        assert (ours - right).norm() <= 1e-4 * right.norm() + 1e-7
    calls = [call["op"] for graph in cuesta.report().graphs for call in graph.aten_calls]
    assert "aten.convolution_backward.default" in calls
