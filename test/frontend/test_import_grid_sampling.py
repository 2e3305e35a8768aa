"""Images read between their pixels, as imported, against eager: all modes, and what lies outside; their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuesta.frontend.aten.grid_sampling import _FEWEST_CHANNELS

Check = Callable[..., Any]

generator = torch.Generator().manual_seed(0)
IMAGE = torch.randn(2, _FEWEST_CHANNELS, 5, 6, generator=generator)
GRID = torch.rand(2, 4, 7, 2, generator=generator) * 3 - 1.5
VOLUME = torch.randn(2, _FEWEST_CHANNELS, 3, 4, 5, generator=generator)
GRID3 = torch.rand(2, 2, 3, 4, 3, generator=generator) * 3 - 1.5
ODD = torch.tensor([torch.nan, 0.1, 1e30, -1e30, torch.inf, 0.3]).reshape(1, 3, 1, 2)


def sampled(mode: str, padding: str, corners: bool) -> Callable[..., torch.Tensor]:
    return lambda x, g: F.grid_sample(x, g, mode, padding, corners)


def gradients(call: Callable[..., torch.Tensor], *xs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    leaves = [x.double().requires_grad_() for x in xs]
    result = call(*leaves)
    weights = torch.linspace(0.5, 1.5, result.numel(), dtype=torch.float64).reshape(result.shape)
    return torch.autograd.grad((result * weights).sum(), leaves)


@pytest.mark.parametrize(
    ("mode", "padding", "corners"),
    [  # every mode with every padding; each mode and each padding with both kinds of corners
        ("bilinear", "zeros", True),
        ("bilinear", "border", False),
        ("bilinear", "reflection", True),
        ("nearest", "zeros", False),
        ("nearest", "border", True),
        ("nearest", "reflection", False),
        ("bicubic", "zeros", True),
        ("bicubic", "border", False),
        ("bicubic", "reflection", True),
    ],
)
def test_images(mode: str, padding: str, corners: bool, capture: Any) -> None:
    function = sampled(mode, padding, corners)
    call = capture.compile(function)
    torch.testing.assert_close(call(IMAGE, GRID), function(IMAGE, GRID))
    torch.testing.assert_close(gradients(call, IMAGE, GRID), gradients(function, IMAGE, GRID))
    assert not {op for run in capture.runs for op in run.reasons()}


@pytest.mark.parametrize("padding", ["zeros", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_volumes(mode: str, padding: str, capture: Any) -> None:
    function = sampled(mode, padding, False)
    mine = gradients(capture.compile(function), VOLUME, GRID3)
    torch.testing.assert_close(mine, gradients(function, VOLUME, GRID3))
    assert not {op for run in capture.runs for op in run.reasons()}


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_no_numbers_and_huge_ones(padding: str, matches_eager: Check) -> None:
    assert not matches_eager(sampled("bilinear", padding, False), IMAGE[:1], ODD).reasons()


def test_one_pixel_reflects_nowhere(matches_eager: Check) -> None:
    assert not matches_eager(sampled("bilinear", "reflection", True), IMAGE[:, :, :1, :1], GRID).reasons()


def test_an_image_of_few_channels_is_atens(matches_eager: Check) -> None:
    run = matches_eager(sampled("bilinear", "zeros", False), IMAGE[:, :3], GRID)
    assert list(run.reasons()) == ["aten.grid_sampler_2d.default"]
