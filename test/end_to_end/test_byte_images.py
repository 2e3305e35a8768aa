"""Images of bytes in another size are eager's, byte for byte: torch's own decompositions are off by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

import cuesta

IMAGE = torch.randint(256, (2, 3, 11, 14), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LAST = IMAGE.contiguous(memory_format=torch.channels_last)

RESIZES: dict[str, dict[str, Any]] = {
    "larger": {"scale_factor": 2, "mode": "bilinear"},
    "smaller": {"size": (7, 9), "mode": "bilinear", "align_corners": True},
    "by the size that a factor gives": {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
    "to a square": {"size": 16, "mode": "bicubic"},
    "by two factors": {"scale_factor": (1.5, 0.6), "mode": "bicubic", "align_corners": True},
    "without steps": {"size": 16, "mode": "bilinear", "antialias": True},
}


@pytest.mark.parametrize("x", [IMAGE, LAST], ids=["rows", "channels_last"])
@pytest.mark.parametrize("arguments", RESIZES.values(), ids=RESIZES.keys())
def test_resize(arguments: dict[str, Any], x: torch.Tensor, cuesta_only: None) -> None:
    resized = torch.compile(lambda x: F.interpolate(x, **arguments) // 2, backend="cuesta", fullgraph=True)(x)
    expected = F.interpolate(x, **arguments) // 2
    assert torch.equal(resized, expected)
    assert resized.stride() == expected.stride()


def test_resize_to_another_tensors_size(cuesta_only: None) -> None:
    def resize(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, size=like.shape[2:], mode="bicubic")

    compiled = torch.compile(resize, backend="cuesta", fullgraph=True, dynamic=True)
    for side in (5, 19):
        like = torch.zeros(1, 1, side, side + 1)
        assert torch.equal(compiled(IMAGE, like), resize(IMAGE, like))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_exported_resize(mode: str) -> None:
    module = torch.nn.Upsample(scale_factor=2, mode=mode)
    floats = IMAGE.float()
    assert torch.equal(cuesta.compile(torch.export.export(module, (IMAGE,)))(IMAGE), module(IMAGE))
    torch.testing.assert_close(cuesta.compile(torch.export.export(module, (floats,)))(floats), module(floats))
