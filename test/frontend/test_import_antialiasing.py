"""Import rules of resizing with antialiasing, and of its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten
Check = Callable[..., Any]


def floats(*sizes: int) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


IMAGE = floats(2, 3, 13, 21)
SIZES = {"smaller": (5, 8), "much smaller": (4, 5), "larger": (30, 25), "both": (29, 7), "same": (13, 21)}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES.keys())
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_resize(mode: str, size: tuple[int, int], align_corners: bool, matches_eager: Check) -> None:
    run = matches_eager(lambda x: F.interpolate(x, size, mode=mode, align_corners=align_corners, antialias=True), IMAGE)
    assert not run.reasons()


def test_what_is_called(matches_eager: Check) -> None:
    run = matches_eager(lambda x: F.interpolate(x, (1, 1), mode="bicubic", antialias=True), IMAGE)
    assert set(run.reasons().values()) == {"means of more than 32 pixels along one axis"}
    backward = aten._upsample_bilinear2d_aa_backward
    run = matches_eager(lambda g: backward(g, [200, 21], [2, 3, 13, 21], False), floats(2, 3, 200, 21))
    assert set(run.reasons().values()) == {"more than 32 pixels along one axis read one"}
    run = matches_eager(lambda g: backward(g, [1, 1], [2, 3, 13, 21], True), floats(2, 3, 1, 1))
    assert set(run.reasons().values()) == {"one pixel of an image's corners"}


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_by_a_factor(mode: str, matches_eager: Check) -> None:
    run = matches_eager(lambda x: F.interpolate(x, scale_factor=0.55, mode=mode, antialias=True), IMAGE)
    assert not run.reasons()


def test_columns_first_and_f64(matches_eager: Check) -> None:
    x = IMAGE.contiguous(memory_format=torch.channels_last)
    assert not matches_eager(lambda x: F.interpolate(x, (6, 9), mode="bilinear", antialias=True), x).reasons()
    assert not matches_eager(lambda x: F.interpolate(x, (6, 9), mode="bicubic", antialias=True), x.double()).reasons()


def test_bytes_are_called(matches_eager: Check) -> None:
    x = (IMAGE * 50 + 128).clamp(0, 255).byte()
    run = matches_eager(lambda x: F.interpolate(x, (6, 9), mode="bilinear", antialias=True), x)
    assert set(run.reasons().values()) == {"ATen resizes images of bytes in whole numbers"}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(5, 8), (2, 3), (30, 25), (29, 7), (13, 21)], ids=str)
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_gradient(mode: str, size: tuple[int, int], align_corners: bool, matches_eager: Check) -> None:
    backward = getattr(aten, f"_upsample_{mode}2d_aa_backward")
    grad = floats(2, 3, *size)
    run = matches_eager(lambda g: backward(g, list(size), [2, 3, 13, 21], align_corners), grad)
    assert not run.reasons()
