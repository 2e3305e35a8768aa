"""Which convolutions ATen computes by oneDNN."""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.policy.slow_floats import slow_in_convolutions
from cuesta.runtime.dtypes import SPELLING


def is_onednn_convolution(images: Tensor, transposed: bool) -> bool:
    """Whether ATen computes a convolution of these images on a CPU by oneDNN: in f32, in bf16 where the processor has
    AVX-512, and in floats that compute-in-f32 widens. Transposed convolutions are left out, because no layout was
    measured for them."""
    if images.device.type != "cpu" or transposed or not torch.backends.mkldnn.is_available():
        return False
    if images.dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return True
    return images.dtype == torch.float32 or SPELLING.get(images.dtype) in slow_in_convolutions()
