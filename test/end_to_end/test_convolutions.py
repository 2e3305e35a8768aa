"""Networks of convolutions on a CPU, whatever layout the compiler chooses: no further from float64 than eager."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

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


@pytest.mark.parametrize(
    ("memory_format", "dynamic"),
    [(torch.contiguous_format, False), (torch.contiguous_format, True), (torch.channels_last, False)],
)
def test_no_further_off_than_eager(backend: str, memory_format: torch.memory_format, dynamic: bool) -> None:
    torch.manual_seed(5)
    model = Network().eval().to(memory_format=memory_format)  # type: ignore[call-overload]
    image = torch.randn(2, 3, 33, 37).to(memory_format=memory_format)
    exact_model, inputs = as_float64(model, {"x": image})
    with torch.no_grad():
        eager, exact = model(image), exact_model(**inputs)
        found = torch.compile(model, backend=backend, fullgraph=True, dynamic=dynamic)(image)
    for ours, theirs, right in zip(found, eager, exact, strict=True):
        assert ours.stride() == theirs.stride()
        assert largest_error(ours, right) <= 2 * largest_error(theirs, right) + 1e-6 * float(right.abs().max())


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
