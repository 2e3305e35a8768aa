"""Convolutions whose channels are no multiples of 8, on the way to a GPU, target "tt": padded once for a chain."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

import cuesta

LAST = torch.channels_last


def convolution(channels: int, results: int, window: int = 3, stride: int = 1, *, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(channels, results, window, stride, window // 2, bias=bias)


class Basic(nn.Module):
    """A residual block of two convolutions, with what `activation` computes behind each."""

    def __init__(self, channels: int, activation: Callable[[Tensor], Tensor] = torch.relu) -> None:
        super().__init__()
        self.first, self.second = convolution(channels, channels), convolution(channels, channels)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)])
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        y = self.activation(self.norms[0](self.first(x)))
        return self.activation(self.norms[1](self.second(y)) + x)


class Exchange(nn.Module):
    """Two branches, each of which gets the other's images in its own size, as in HRNet."""

    def __init__(self, returned: int = 2) -> None:
        super().__init__()
        self.returned = returned
        self.stem, self.narrow = convolution(16, 18), convolution(18, 36, 3, 2)
        self.fine, self.coarse = nn.Sequential(Basic(18), Basic(18)), nn.Sequential(Basic(36), Basic(36))
        self.up = nn.Sequential(convolution(36, 18, 1), nn.BatchNorm2d(18), nn.Upsample(scale_factor=2))
        self.down = nn.Sequential(convolution(18, 36, 3, 2), nn.BatchNorm2d(36))
        self.last = Basic(18)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        fine = self.stem(x)
        fine, coarse = self.fine(fine), self.coarse(self.narrow(fine))
        fine, coarse = torch.relu(fine + self.up(coarse)), torch.relu(self.down(fine) + coarse)
        return (self.last(fine), coarse)[: self.returned]


class Inverted(nn.Module):
    """An inverted residual block whose widths are no multiples of 8, with a gate, as in ReXNet."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Sequential(convolution(16, 27, 1), nn.BatchNorm2d(27))
        self.wide = nn.Sequential(convolution(27, 61, 1), nn.BatchNorm2d(61), nn.SiLU())
        self.deep = nn.Sequential(nn.Conv2d(61, 61, 3, 1, 1, groups=61, bias=False), nn.BatchNorm2d(61))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(61, 5, 1), nn.ReLU(), nn.Conv2d(5, 61, 1))
        self.back = nn.Sequential(nn.ReLU6(), convolution(61, 38, 1), nn.BatchNorm2d(38), convolution(38, 50))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.deep(self.wide(self.before(x)))
        return (self.back(x * torch.sigmoid(self.gate(x))),)


class Uses(nn.Module):
    """Images of 18 channels that are returned, pooled, concatenated, divided by and normalised besides."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([convolution(16, 18, bias=True), *(convolution(18, 18) for _ in range(3))])
        self.both, self.classes = convolution(36, 20), nn.Linear(18, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        a = torch.relu(self.layers[0](x))
        b = self.layers[1](a) / (a + 1)
        c = self.layers[2](F.max_pool2d(torch.where(b > 0, b, b.exp() - 1), 3, 2, 1))
        d = self.layers[3](c.log_softmax(1))
        return a, self.both(torch.cat([c, d], 1)), self.classes(c.mean((2, 3))), b[:, 3:17]


#: Name → the model, the shape of its images, and how many channels the convolutions that ATen computes then have. To 5
#: too many would be added. What is divided along the channels is not padded, nor what comes after it.
CASES: dict[str, tuple[nn.Module, tuple[int, ...], set[int]]] = {
    "residual": (nn.Sequential(Basic(18), Basic(18)), (2, 18, 9, 7), {24}),
    "silu": (nn.Sequential(Basic(18, F.silu), Basic(18, F.silu)), (2, 18, 8, 8), {24}),
    "exchange": (Exchange(), (2, 16, 16, 12), {16, 24, 40}),
    "exchange, one result": (Exchange(1), (1, 16, 8, 8), {16, 24, 40}),
    "inverted": (Inverted(), (2, 16, 9, 9), {40, 56, 64} | {5}),
    "other uses": (Uses(), (2, 16, 11, 10), {16, 24} | {18, 36, 20}),
}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("memory_format", [LAST, torch.contiguous_format], ids=["channels_last", "row-major"])
def test_padded_chains_are_as_exact_as_eager(name: str, dtype: torch.dtype, memory_format: torch.memory_format) -> None:
    model, x = made(name, dtype, memory_format)
    ours = compiled(model)
    with torch.no_grad():
        ours(x)
        results, widths = convolved(ours, x)
        check(tensors(results), tensors(model(x)), tensors(exact(model)(x.double())))
    (graph,) = cuesta.report().graphs
    assert graph.fallback is None
    if memory_format == LAST:
        assert widths == CASES[name][2]


@pytest.mark.parametrize("name", ["residual", "exchange"])
def test_a_training_step_is_as_exact_as_eager(name: str) -> None:
    model, x = made(name, torch.bfloat16, LAST)
    model.train()
    stepped = (step(compiled(copy.deepcopy(model)), x), step(copy.deepcopy(model), x), step(exact(model), x.double()))
    check(*stepped)


def step(model: nn.Module, x: Tensor) -> list[Tensor]:
    """The results of a training step, and the gradients of the images and the weights."""
    x = x.clone().requires_grad_()
    results = tensors(model(x))
    weighted = [(y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)).sum() for y in results]
    torch.stack(weighted).sum().backward()
    gradients = [t.grad for t in (x, *model.parameters())]
    return [*(y.detach() for y in results), *(g for g in gradients if g is not None)]


def convolved(run: Callable[[Tensor], Any], x: Tensor) -> tuple[Any, set[int]]:
    """What `run` returns for x, and how many channels the images and results have of the convolutions that ATen
    computes."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as seen:
        results = run(x)
    shapes = [event.input_shapes[:2] for event in seen.events() if event.name == "aten::convolution"]
    return results, {width for (_, channels, *_), (count, *_) in shapes for width in (channels, count)}


def made(name: str, dtype: torch.dtype, memory_format: torch.memory_format) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model, shape, _ = CASES[name]
    model = copy.deepcopy(model).eval()
    for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
        assert norm.running_mean is not None and norm.running_var is not None
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return model.to(dtype), torch.randn(shape).to(dtype).to(memory_format=memory_format)


def compiled(model: nn.Module) -> nn.Module:
    torch._dynamo.reset()
    return torch.compile(model, backend="cuesta", options={"target": "tt", "cache": False})  # type: ignore[return-value]


def exact(model: nn.Module) -> nn.Module:
    return copy.deepcopy(model).double()


def tensors(results: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def check(ours: Sequence[Tensor], eager: Sequence[Tensor], exact: Sequence[Tensor]) -> None:
    """Checks strides, and that no result is further from the exact one than twice eager's. The stride of a dim of size
    1 says nothing, and eager's depends on the kernels that a processor has."""
    for a, b, c in zip(ours, eager, exact, strict=True):
        steps = [(m, n) for m, n, size in zip(a.stride(), b.stride(), b.shape, strict=True) if size != 1]
        assert a.shape == b.shape and a.dtype == b.dtype and all(m == n for m, n in steps)
        assert distance(a, c) <= 2 * distance(b, c) + 1e-6


def distance(x: Tensor, exact: Tensor) -> float:
    return float((x.double() - exact).norm() / exact.norm())
