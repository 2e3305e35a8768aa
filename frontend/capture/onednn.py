"""Which convolutions ATen computes by oneDNN."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.policy.slow_floats import slow_in_convolutions

#: Floats that may be computed in f32 (passes/libraries/compute_in_f32.py).
_NARROW = {torch.bfloat16: "bf16", torch.float16: "f16"}


def is_onednn_convolution(images: Tensor, transposed: bool) -> bool:
    """Whether ATen computes a convolution of these images on a CPU by oneDNN: in f32, in bf16 where the processor has
    AVX-512, and in what is computed in f32. Transposed convolutions are left out: for them no layout was measured."""
    if images.device.type != "cpu" or transposed or not torch.backends.mkldnn.is_available():
        return False
    if images.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return True
    return images.dtype == torch.float32 or _NARROW.get(images.dtype) in slow_in_convolutions()
