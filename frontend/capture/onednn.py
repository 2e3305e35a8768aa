"""Which convolutions ATen computes by oneDNN."""

from __future__ import annotations

import torch
from torch import Tensor


def is_onednn_convolution(images: Tensor, transposed: bool) -> bool:
    """Whether ATen computes a convolution of these images on a CPU by oneDNN: in f32, and in bf16 where the processor
    has AVX-512. Transposed convolutions are left out: for them no layout was measured."""
    if images.device.type != "cpu" or transposed or not torch.backends.mkldnn.is_available():
        return False
    if images.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return images.dtype == torch.float32
