"""Depthwise convolutions on the way to a GPU, target "tt": kernels of ours in channels_last, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cuesta


@dataclass(frozen=True)
class Shape:
    """Images [N, C, H, W], the window, and the numbers of a convolution."""

    images: tuple[int, int, int, int]
    window: tuple[int, int]
    stride: int | tuple[int, int] = 1
    padding: int | tuple[int, int] = 0
    dilation: int = 1

    @property
    def calls(self) -> int:
        """How many of the gradients of the images and of the weight ATen computes."""
        windows = self.convolve(*self.tensors()[:2]).shape[2:]
        is_small = self.window[0] * self.window[1] <= 25
        return (not is_small and self.stride != 1) + (not is_small or max(windows) == 1)

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return F.conv2d(x, weight, bias, self.stride, self.padding, self.dilation, self.images[1])

    def tensors(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        generator = torch.Generator().manual_seed(sum(self.images))
        channels = self.images[1]
        sizes = (self.images, (channels, 1, *self.window), (channels,))
        x, weight, bias = (torch.randn(s, generator=generator).to(dtype) for s in sizes)
        return [x.contiguous(memory_format=torch.channels_last), weight, bias]


#: Whole and cut blocks; windows that reach over the border, of one row or column, with gaps, side by side.
SHAPES = {
    "large window": Shape((2, 32, 14, 14), (7, 7), padding=3),
    "even window": Shape((1, 16, 11, 12), (6, 8), padding=(3, 4)),
    "stride": Shape((1, 24, 9, 11), (3, 3), stride=2, padding=1),
    "dilation": Shape((2, 40, 8, 8), (3, 3), padding=2, dilation=2),
    "one row": Shape((2, 16, 1, 20), (1, 5), padding=(0, 2)),
    "column window": Shape((3, 16, 10, 6), (3, 1), padding=(1, 0)),
    "row window": Shape((3, 16, 10, 6), (1, 3), padding=(0, 1)),
    "side by side": Shape((2, 32, 12, 12), (3, 3), stride=3),
    "few channels": Shape((2, 3, 9, 8), (3, 3)),
    "one window": Shape((2, 16, 9, 9), (9, 9)),
    "strides that differ": Shape((2, 24, 12, 7), (5, 3), stride=(1, 2), padding=(2, 1)),
    "stride of gaps": Shape((1, 16, 11, 10), (3, 3), stride=2, padding=2, dilation=2),
    "stride beyond the window": Shape((1, 16, 11, 11), (2, 2), stride=3),
    "large window with a stride": Shape((1, 16, 12, 12), (6, 6), stride=2, padding=3),
    "row with a stride": Shape((2, 16, 1, 15), (1, 5), stride=2, padding=(0, 2)),
    "one column": Shape((2, 16, 20, 1), (5, 1), stride=(2, 1), padding=(3, 0)),
    "groups of samples": Shape((66, 1024, 4, 3), (3, 3), padding=1),
    "groups of rows": Shape((1, 80, 12, 13), (5, 5), padding=2),
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))


def kernel_ops() -> list[str]:
    """The names of torch's ops in all kernels of the last compile."""
    return [op for graph in cuesta.report().graphs for kernel in graph.kernels for op in kernel["ops"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@each_shape
def test_forward(shape: Shape, dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    tensors = shape.tensors(dtype)

    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(shape.convolve(x, weight, bias))

    found = torch.compile(layer, backend="cuesta", options={"target": "tt"})(*tensors)
    exact = layer(*(t.double() for t in tensors))
    eager = layer(*tensors)
    assert found.is_contiguous(memory_format=torch.channels_last)
    assert (found - exact).norm() <= 1.1 * (eager - exact).norm() + 1e-6 * exact.norm()
    assert "convolution" in kernel_ops()


@each_shape
def test_gradients(shape: Shape) -> None:
    torch._dynamo.reset()
    leaves = [t.requires_grad_() for t in shape.tensors()]

    def loss(*tensors: Tensor) -> Tensor:
        x, weight, bias = tensors
        return F.gelu(shape.convolve(x.sin(), weight, bias)).sum()

    compiled = torch.compile(loss, backend="cuesta", options={"target": "tt"})
    found = torch.autograd.grad(compiled(*leaves), leaves)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    for own, true in zip(found, torch.autograd.grad(loss(*exact), exact), strict=True):
        assert (own - true).abs().max() <= 1e-5 * true.abs().max()
    calls = [call for graph in cuesta.report().graphs for call in graph.aten_calls]
    assert len(calls) == min(shape.calls, 1)


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("stride", [1, 2])
def test_what_is_not_a_number_stays_where_windows_have_it(stride: int, padding: int) -> None:
    torch._dynamo.reset()
    shape = Shape((2, 16, 6, 6), (3, 3), stride, padding)
    x, weight, bias = (t.requires_grad_() for t in shape.tensors())
    with torch.no_grad():
        x[1, 3, :, 5] = torch.nan
        x[0, 4, 0] = torch.inf

    def loss(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return shape.convolve(x, weight, bias).sum()

    compiled = torch.compile(loss, backend="cuesta", options={"target": "tt"})
    (found,) = torch.autograd.grad(compiled(x, weight, bias), [weight])
    (expected,) = torch.autograd.grad(loss(x.double(), weight.double(), bias.double()), [weight])
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)
    torch.testing.assert_close(found, expected.float(), equal_nan=True)


def test_batch_of_any_size() -> None:
    torch._dynamo.reset()
    shape = SHAPES["dilation"]
    _, weight, bias = shape.tensors()
    compiled = torch.compile(
        lambda x: shape.convolve(x, weight, bias).relu(), backend="cuesta", dynamic=True, options={"target": "tt"}
    )
    for samples in (2, 5, 1, 7):
        x = torch.randn(samples, 40, 8, 8).contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(compiled(x), shape.convolve(x, weight, bias).relu())


@pytest.mark.parametrize(
    "seen",
    [
        lambda x: x.transpose(2, 3),
        lambda x: x[:1].expand(3, -1, -1, -1),
        lambda x: x[:, :, :1].expand(-1, -1, 6, -1),
        lambda x: x[:, :, :, :1].expand(-1, -1, -1, 6),
        lambda x: x[:, ::2].repeat_interleave(2, 1),
        lambda x: x.flip(2),
        lambda x: x[:, :, ::2, 1:],
    ],
    ids=["transposed", "samples repeated", "rows repeated", "columns repeated", "channels", "flipped", "a part"],
)
def test_images_that_lie_otherwise(seen: Callable[[Tensor], Tensor]) -> None:
    torch._dynamo.reset()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 16, 8, 6, generator=generator).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(16, 1, 3, 3, generator=generator)

    def layer(x: Tensor) -> Tensor:
        images = seen(x)
        return F.conv2d(images, weight, None, 1, 1, 1, 16).relu() + images

    found = torch.compile(layer, backend="cuesta", options={"target": "tt"})(x)
    torch.testing.assert_close(found, layer(x))


@pytest.mark.parametrize("around", [(0, 1, 0, 1), (1, 2, 2, 0), (0, 0, 3, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_zeros_around(around: tuple[int, int, int, int], dtype: torch.dtype) -> None:
    """Zeros that are put around the images by another number on each side are read, not written."""
    torch._dynamo.reset()
    shape = Shape((2, 16, 10, 12), (3, 3), stride=2, padding=1)
    tensors = shape.tensors(dtype)

    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return shape.convolve(F.pad(F.gelu(x), around), weight, bias)

    found = torch.compile(layer, backend="cuesta", options={"target": "tt", "cache": False})(*tensors)
    exact = layer(*(t.double() for t in tensors))
    assert (found - exact).norm() <= 1.1 * (layer(*tensors) - exact).norm() + 1e-6 * exact.norm()
    assert len([k for graph in cuesta.report().graphs for k in graph.kernels if "copy" in k["ops"]]) <= 1
