"""Defines a custom op for the gradient of a pooling that saved offsets (saved_positions.py puts it into graphs)."""

from __future__ import annotations

import torch
from torch import Tensor

aten = torch.ops.aten


@torch.library.custom_op("cuesta::max_pool_backward", mutates_args=())
def backward(
    grad: Tensor, x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool, offsets: Tensor
) -> Tensor:
    """The gradient of images x [N, C, H, W] that were pooled in two dims. `offsets` says where each maximum lies in the
    flattened image, counted from the first place of its window, which may be outside."""
    indices = offsets.long() + first_places(offsets, x.shape[-1], stride, padding)
    result: Tensor = aten.max_pool2d_with_indices_backward(grad, x, kernel, stride, padding, [1, 1], ceil_mode, indices)
    return result


@backward.register_fake
def _(
    grad: Tensor, x: Tensor, kernel: list[int], stride: list[int], padding: list[int], ceil_mode: bool, offsets: Tensor
) -> Tensor:
    return torch.empty_like(x)


def first_places(pooled: Tensor, width: int, stride: list[int], padding: list[int]) -> Tensor:
    """The position of each window's first place in flattened images of this width; [H, W] of what was pooled."""
    rows, columns = (
        torch.arange(n, device=pooled.device) * s - p
        for n, s, p in zip(pooled.shape[-2:], stride, padding, strict=True)
    )
    return rows[:, None] * width + columns
