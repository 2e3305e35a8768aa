"""Networks of convolutions on a CPU, whatever layout the compiler chooses: no further from float64 than eager."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cuesta.tools.accuracy import as_float64, largest_error


class Network(nn.Module):
    """Windows, groups, strides and a residual; the last convolution has more weights than its images have elements."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 24, 7, 2, 3, bias=False), nn.BatchNorm2d(24), nn.ReLU())
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.wide = nn.Sequential(nn.Conv2d(24, 40, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(40, 40, 3, padding=1, groups=40), nn.BatchNorm2d(40), nn.Hardswish())
        self.back = nn.Sequential(nn.Conv2d(40, 24, 1, bias=False), nn.BatchNorm2d(24))
        self.last = nn.Sequential(nn.Conv2d(48, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU())
        for norm in self.modules():
            if isinstance(norm, nn.BatchNorm2d):
                norm.running_mean = torch.randn(norm.num_features)
                norm.running_var = torch.rand(norm.num_features) * 4 + 0.05
                nn.init.normal_(norm.weight, 1.0, 0.3)
                nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.pool(self.stem(x))
        y = torch.relu(self.back(self.deep(self.wide(x))) + x)
        return self.last(torch.cat([x, y], dim=1)).mean((2, 3)), y


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_no_further_off_than_eager(backend: str, memory_format: torch.memory_format) -> None:
    torch.manual_seed(5)
    model = Network().eval().to(memory_format=memory_format)  # type: ignore[call-overload]
    image = torch.randn(2, 3, 33, 37).to(memory_format=memory_format)
    exact_model, inputs = as_float64(model, {"x": image})
    with torch.no_grad():
        eager, exact = model(image), exact_model(**inputs)
        found = torch.compile(model, backend=backend, fullgraph=True)(image)
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        assert ours.stride() == theirs.stride()
        assert largest_error(ours, right) <= 2 * largest_error(theirs, right) + 1e-6 * float(right.abs().max())


def test_images_of_any_size(backend: str) -> None:
    torch.manual_seed(5)
    weight, depthwise = torch.randn(16, 3, 3, 3), torch.randn(16, 1, 3, 3)

    def network(x: Tensor) -> Tensor:
        return F.conv2d(F.conv2d(x, weight.to(x.dtype)).relu(), depthwise.to(x.dtype), padding=1, groups=16).relu()

    compiled = torch.compile(network, backend=backend, fullgraph=True, dynamic=True)
    for sizes in ((2, 3, 20, 24), (3, 3, 9, 8)):
        image = torch.randn(sizes)
        exact = network(image.double())
        assert compiled(image).is_contiguous()
        assert largest_error(compiled(image), exact) <= 1e-5 * float(exact.max())


def gradients(model: nn.Module, image: Tensor, run: Callable[..., tuple[Tensor, Tensor]]) -> dict[str, Tensor]:
    first, second = run(image)
    (first.square().sum() + second.sin().sum()).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_gradients_are_no_further_off_than_eager(backend: str) -> None:
    torch.manual_seed(5)
    model, image = Network().train(), torch.randn(4, 3, 33, 37)
    models = [copy.deepcopy(model) for _ in range(3)]
    exact = gradients(models[0].double(), image.double(), models[0])
    eager = gradients(models[1], image, models[1])
    # Equal to eager in all but rounding, as is what the compiler makes of it.
    last = models[2].to(memory_format=torch.channels_last)
    other = gradients(last, image.to(memory_format=torch.channels_last), last)
    found = gradients(model, image, torch.compile(model, backend=backend, fullgraph=True))
    assert found.keys() == exact.keys()
    for name, right in exact.items():
        assert found[name].is_contiguous()
        allowed = max(largest_error(eager[name], right), largest_error(other[name], right))
        assert largest_error(found[name], right) <= 3 * allowed + 1e-5 * float(right.abs().max()), name


def test_no_images(backend: str) -> None:
    image = torch.randn(0, 8, 5, 7).to(memory_format=torch.channels_last).requires_grad_()
    model = nn.Conv2d(8, 12, 1)
    found = torch.compile(model, backend=backend, fullgraph=True)(image)
    assert found.shape == (0, 12, 5, 7)
    found.sum().backward()
    assert model.weight.grad is not None and not model.weight.grad.any()


def test_weights_written_between_calls(backend: str) -> None:
    torch.manual_seed(5)
    model = Network().eval()
    image = torch.randn(2, 3, 33, 37)
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    with torch.no_grad():
        compiled(image)
        for parameter in model.parameters():
            parameter.data.mul_(1.25)  # which no version counter notices
        torch.testing.assert_close(compiled(image), model(image), rtol=1e-4, atol=1e-5)


def test_a_kernel_whose_buffers_no_stack_holds() -> None:
    """A pool and the norm behind it are one kernel in training, which keeps 27 buffers of 590 KB."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 64, 3, 2, 1, bias=False), nn.MaxPool2d(3, 2, 1), nn.BatchNorm2d(64))
    image = torch.randn(4, 3, 96, 96)
    torch._dynamo.reset()
    actual = torch.compile(copy.deepcopy(model), backend="cuesta")(image)
    torch.testing.assert_close(actual, model(image))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_patches(backend: str, memory_format: torch.memory_format) -> None:
    """A vision transformer's first layer with its gradients, those of the image too."""
    torch.manual_seed(5)
    layer = nn.Conv2d(3, 20, 8, 8)
    image = torch.randn(2, 3, 32, 16).to(memory_format=memory_format)

    def step(function: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        result = function(x)
        return [result, *torch.autograd.grad(result.sin().sum(), [x, *module.parameters()])]

    exact_layer = copy.deepcopy(layer).double()
    exact = step(lambda x: exact_layer(x).relu().flatten(2).transpose(1, 2), exact_layer, image.double())
    compiled = torch.compile(lambda x: layer(x).relu().flatten(2).transpose(1, 2), backend=backend, fullgraph=True)
    for ours, right in zip(step(compiled, layer, image), exact, strict=True):
        torch.testing.assert_close(ours, right.float())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_few_patches(backend: str, memory_format: torch.memory_format, dtype: torch.dtype) -> None:
    """Windows side by side over images that have few elements beside the weight, with all gradients."""
    torch.manual_seed(5)
    layer = nn.Conv2d(24, 40, 2, 2).to(dtype)
    image = torch.randn(1, 24, 6, 4).to(dtype, memory_format=memory_format)

    def step(function: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor) -> list[Tensor]:
        x = x.clone().requires_grad_()
        result = function(x)
        return [result.detach(), *torch.autograd.grad(result.sin().sum(), [x, *module.parameters()])]

    exact_layer, eager_layer = copy.deepcopy(layer).double(), copy.deepcopy(layer)
    exact = step(lambda x: exact_layer(x).relu(), exact_layer, image.double())
    eager = step(lambda x: eager_layer(x).relu(), eager_layer, image)
    compiled = torch.compile(lambda x: layer(x).relu(), backend=backend, fullgraph=True)
    for ours, theirs, right in zip(step(compiled, layer, image), eager, exact, strict=True):
        assert largest_error(ours, right) <= 2 * largest_error(theirs, right) + 1e-6 * float(right.abs().max())


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_one_dim(backend: str, dtype: torch.dtype, dynamic: bool) -> None:
    """Convolutions along one dim: of one channel, with a stride, with windows of one element, in groups."""
    torch.manual_seed(5)
    layers = (
        nn.Conv1d(1, 24, 5, 2),
        nn.Conv1d(24, 32, 3, padding=1),
        nn.Conv1d(32, 48, 1),
        nn.Conv1d(48, 48, 3, groups=3),
    )
    model = nn.Sequential(*(part for layer in layers for part in (layer, nn.GELU()))).to(dtype).eval()
    compiled = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)
    exact_model = copy.deepcopy(model).double()
    with torch.no_grad():
        for length in (100, 71) if dynamic else (100,):
            sound = torch.randn(2, 1, length).to(dtype)
            ours, theirs, right = compiled(sound), model(sound), exact_model(sound.double())
            assert ours.stride() == theirs.stride()
            assert largest_error(ours, right) <= 2 * largest_error(theirs, right) + 1e-6 * float(right.abs().max())


@pytest.mark.parametrize(("window", "stride"), [(5, 1), (5, 2), (7, 1)])
def test_gradients_of_depthwise_convolutions(window: int, stride: int, backend: str) -> None:
    torch.manual_seed(5)
    x = torch.randn(2, 40, 13, 11).to(memory_format=torch.channels_last).requires_grad_()
    weight, bias = torch.randn(40, 1, window, window, requires_grad=True), torch.randn(40, requires_grad=True)

    def convolved(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.conv2d(x, weight, bias, stride, window // 2, groups=40)

    def gradients(function: Callable[..., Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(function(*inputs).square().sum(), inputs)

    eager = gradients(convolved, x, weight, bias)
    exact = gradients(convolved, x.double(), weight.double(), bias.double())
    found = gradients(torch.compile(convolved, backend=backend, fullgraph=True), x, weight, bias)
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        assert ours.stride() == theirs.stride()
        assert largest_error(ours, right) <= 2 * largest_error(theirs, right) + 1e-6 * float(right.abs().max())


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_weight_of_strided_pixels_of_few_channels(memory_format: torch.memory_format) -> None:
    """oneDNN's gradient in channels_last ends the process, eager's as well."""
    torch.manual_seed(0)
    branches = nn.ModuleList([nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(3, 8, 1, 2)])

    def loss(x: Tensor) -> Tensor:
        return sum(branch(x) for branch in branches).relu().square().mean()

    x = torch.randn(2, 3, 64, 64)
    expected = torch.autograd.grad(loss(x), list(branches.parameters()))
    for _ in range(3):
        actual = torch.autograd.grad(
            torch.compile(loss, backend="cuesta")(x.to(memory_format=memory_format)), list(branches.parameters())
        )
    torch.testing.assert_close(actual, expected)
