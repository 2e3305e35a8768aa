"""Defines a custom op that resizes uint8 images (byte_images.py puts it into graphs)."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.frontend.fx_passes.byte_images import RESIZES
from cuesta.torch_private.decompositions import suggest_memory_format


@torch.library.custom_op("cuesta::resize_bytes", mutates_args=())
def resize_bytes(
    x: Tensor, size: list[int] | None, scale: list[float] | None, mode: str, align_corners: bool
) -> Tensor:
    """Resizes uint8 images [N, C, H, W] to `size`, or where that is None to their own size times `scale`."""
    result: Tensor = RESIZES[mode](x, size, align_corners, scale)
    return result


@resize_bytes.register_fake
def _(x: Tensor, size: list[int] | None, scale: list[float] | None, mode: str, align_corners: bool) -> Tensor:
    if size is None:
        assert scale is not None
        size = [torch.sym_int(n * factor) for n, factor in zip(x.shape[2:], scale, strict=True)]
    return x.new_empty([*x.shape[:2], *size]).contiguous(memory_format=suggest_memory_format(x))
