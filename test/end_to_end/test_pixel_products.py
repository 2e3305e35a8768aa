"""Convolutions of single pixels, and of images of few channels, on the way to a GPU, target "tt": products with what
follows in the kernel."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta


class Gated(nn.Module):
    """Scales channels by what a small network makes of their means, as squeeze-and-excite does."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow, self.wide = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.wide(torch.relu(self.narrow(x.mean((2, 3), keepdim=True)))))


class Residual(nn.Module):
    """Adds a block's input to its result."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


def pixels(activation: nn.Module, *gate: nn.Module, bias: bool = False) -> nn.Module:
    """An inverted residual block: pixels to more channels, a depthwise convolution, and back."""
    wide = [nn.Conv2d(24, 48, 1, bias=bias), nn.BatchNorm2d(48), activation]
    deep = [nn.Conv2d(48, 48, 3, padding=1, groups=48, bias=False), nn.BatchNorm2d(48), activation]
    back = [nn.Conv2d(48, 24, 1, bias=False), nn.BatchNorm2d(24)]
    return nn.Sequential(nn.Conv2d(16, 24, 1), nn.SiLU(), Residual(*wide, *deep, *gate, *back), nn.AvgPool2d(2))


def stem(*arguments: Any, **others: Any) -> nn.Module:
    convolution = nn.Conv2d(*arguments, **others)
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU())


#: Name → the model, and the shape of its images.
CASES: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "relu6": (pixels(nn.ReLU6()), (2, 16, 13, 9)),
    "bias and gelu": (pixels(nn.GELU(), bias=True), (1, 16, 8, 8)),
    "squeeze and excite": (pixels(nn.Hardswish(), Gated(48)), (3, 16, 7, 5)),
    "3x3 of 3 channels": (stem(3, 32, 3, 2, 1, bias=False), (2, 3, 21, 18)),
    "without a border": (stem(3, 24, 3), (2, 3, 20, 17)),
    "one channel": (stem(1, 16, 5, 1, 2), (2, 1, 19, 19)),
    "dilated, sizes that differ": (stem(4, 64, (3, 2), (2, 1), (1, 0), (2, 1)), (2, 4, 24, 30)),
    "a row": (stem(2, 40, (1, 7), (1, 2), (0, 3)), (2, 2, 9, 40)),
    "single pixels of 3 channels": (stem(3, 16, 1, 2), (2, 3, 17, 12)),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("channels_last", [False, True], ids=["row-major", "channels_last"])
def test_products_of_pixels_are_as_exact_as_eager(name: str, dtype: torch.dtype, channels_last: bool) -> None:
    torch.manual_seed(0)
    model, shape = CASES[name]
    model = copy.deepcopy(model).eval()
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    x = torch.randn(shape)
    model, x = model.to(dtype), x.to(dtype)
    if channels_last:
        x = x.to(memory_format=torch.channels_last)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="cuesta", options={"target": "tt", "cache": False})
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
        eager, ours = model(x), compiled(x)
    assert ours.stride() == eager.stride()
    assert distance(ours, exact) <= 1.1 * distance(eager, exact) + 1e-6
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None
    # Row-major images of many channels stay with the library, as do the gate's few pixels, which are reduced.
    if shape[1] < 5 or (channels_last and "excite" not in name):
        assert not graph.aten_calls


def distance(x: Tensor, exact: Tensor) -> float:
    return float((x.double() - exact).norm() / exact.norm())
