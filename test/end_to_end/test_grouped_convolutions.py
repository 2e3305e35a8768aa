"""Grouped convolutions with long windows: products over an overlapping view on the way to a GPU, target "tt", and of a
copy of it on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import cuesta


@dataclass(frozen=True)
class Shape:
    """Images, the window, the channels that come out, and the numbers of a convolution."""

    images: tuple[int, ...]
    outer: int
    groups: int
    window: tuple[int, ...]
    stride: tuple[int, ...] | int = 1
    padding: tuple[int, ...] | int = 0
    #: As in wav2vec 2.0, whose windows have an even number of places.
    cuts_last: bool = False
    biased: bool = True

    def layer(self, x: Tensor, weight: Tensor, *bias: Tensor) -> Tensor:
        convolve = F.conv1d if len(self.window) == 1 else F.conv2d
        y = convolve(x, weight, *(bias or (None,)), self.stride, self.padding, 1, self.groups)
        return F.gelu(y[..., :-1] if self.cuts_last else y)

    def tensors(self) -> list[Tensor]:
        generator = torch.Generator().manual_seed(sum(self.images))
        weight = (self.outer, self.images[1] // self.groups, *self.window)
        sizes: list[tuple[int, ...]] = [self.images, weight, *([(self.outer,)] if self.biased else [])]
        return [torch.randn(s, generator=generator) for s in sizes]


#: Whole and cut blocks; windows that reach over both borders, over one, over none; more channels in than out, fewer.
SHAPES = {
    "even window": Shape((2, 32, 70), 32, 4, (16,), padding=8, cuts_last=True),
    "odd window": Shape((3, 32, 45), 32, 4, (17,), padding=8),
    "one sample": Shape((1, 48, 40), 48, 3, (20,), padding=10),
    "little padding": Shape((2, 32, 64), 64, 4, (32,), padding=3, biased=False),
    "no padding": Shape((2, 64, 50), 32, 2, (18,)),
    "row window": Shape((2, 16, 3, 33), 32, 2, (1, 16), padding=(0, 5)),
    "column window": Shape((2, 32, 33, 3), 16, 2, (16, 1), padding=(5, 0)),
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))


def results(function: object, tensors: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """The result of a layer and the gradients of its arguments, which are rounded to bf16."""
    leaves = [t.bfloat16().to(dtype).requires_grad_() for t in tensors]
    y = function(*leaves)  # type: ignore[operator]
    y.backward(torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).bfloat16().to(dtype))
    return [y.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)]


def compiled(layer: object) -> object:
    torch._dynamo.reset()
    return torch.compile(layer, backend="cuesta", options={"target": "tt", "cache": False})  # type: ignore[call-overload]


def is_close(ours: Tensor, own: Tensor, exact: Tensor) -> bool:
    return float((ours - exact).norm()) <= 1.1 * float((own - exact).norm()) + 1e-6 * float(exact.norm())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@each_shape
def test_layer_and_gradients(shape: Shape, dtype: torch.dtype) -> None:
    tensors = shape.tensors()
    exact, eager = (results(shape.layer, tensors, kind) for kind in (torch.float64, dtype))
    made = results(compiled(shape.layer), tensors, dtype)
    for ours, own, wide in zip(made, eager, exact, strict=True):
        assert ours.stride() == own.stride()
        assert is_close(ours, own, wide)
    for graph in cuesta.report().graphs:
        assert graph.fallback is None
        assert not graph.aten_calls


@pytest.mark.parametrize("stride", [2, 3])
def test_stride(stride: int) -> None:
    shape = Shape((2, 32, 90), 32, 4, (16,), stride=stride, padding=8)
    tensors = shape.tensors()
    exact, eager = (results(shape.layer, tensors, kind) for kind in (torch.float64, torch.bfloat16))
    made = results(compiled(shape.layer), tensors, torch.bfloat16)
    assert all(is_close(*each) for each in zip(made, eager, exact, strict=True))
    forward, backward = cuesta.report().graphs
    assert not forward.aten_calls
    assert backward.aten_calls  # the gradients with a stride are the library's


class Positions(nn.Module):
    """The layer of wav2vec 2.0 that tells positions."""

    def __init__(self) -> None:
        super().__init__()
        convolution = nn.Conv1d(32, 32, 16, padding=8, groups=4)
        self.convolution = nn.utils.parametrizations.weight_norm(convolution, dim=2)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: Tensor) -> Tensor:
        y = self.convolution(x.transpose(1, 2))[:, :, :-1]
        norm: Tensor = self.norm(x + F.gelu(y).transpose(1, 2))
        return norm


@pytest.mark.parametrize("batch", [1, 2])
def test_what_follows_is_in_the_kernel(batch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    model = Positions().bfloat16().eval()
    x = torch.randn(batch, 70, 32, generator=generator).bfloat16()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        made, own = compiled(model)(x), model(x)  # type: ignore[operator]
        exact = model.double()(x.double())
    assert made.stride() == own.stride()
    assert is_close(made, own, exact)
    (graph,) = cuesta.report().graphs
    assert ["convolution", "gelu", "add"] in [kernel["ops"] for kernel in graph.kernels]
    # Nothing copies what this kernel has written: the weight's norm, two copies that it reads, itself, the norm.
    assert graph.launches <= 5


@pytest.mark.parametrize(
    "shape",
    [
        Shape((2, 32, 40), 32, 4, (8,)),
        Shape((2, 32, 40, 40), 32, 4, (16, 16)),
        Shape((2, 16, 40), 16, 16, (16,)),
        Shape((2, 48, 40), 48, 4, (16,)),
        Shape((2, 32, 20), 32, 4, (16,)),
    ],
    ids=["short window", "window of two dims", "depthwise", "twelve channels", "few results"],
)
def test_left_to_the_library(shape: Shape) -> None:
    tensors = [t.bfloat16() for t in shape.tensors()]
    with torch.no_grad():
        compiled(shape.layer)(*tensors)  # type: ignore[operator]
    (graph,) = cuesta.report().graphs
    assert graph.aten_calls


@each_shape
def test_layer_on_a_cpu(shape: Shape) -> None:
    tensors = [t.bfloat16() for t in shape.tensors()]
    exact, own = shape.layer(*(t.double() for t in tensors)), shape.layer(*tensors)
    torch._dynamo.reset()
    made = torch.compile(shape.layer, backend="cuesta", options={"cache": False})(*tensors)
    assert made.stride() == own.stride()
    assert is_close(made, own, exact)
    (graph,) = cuesta.report().graphs
    called = {call["op"] for call in graph.aten_calls}
    # Without AVX-512 oneDNN computes no convolution of bf16, and so none in a layout that it prefers.
    has_onednn = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    product = "aten.baddbmm.default" if shape.biased else "aten.bmm.default"
    assert called == {product if has_onednn else "aten.convolution.default"}
