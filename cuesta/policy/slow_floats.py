"""Says which vectors torch uses on this machine, and which narrow floats libraries multiply there many times slower
than f32.

oneDNN multiplies bf16 with AVX-512 and f16 with AVX512-FP16. Where a processor of the x86 family lacks these, ATen
computes in loops of its own. One thread of an EPYC (Zen 3), in ms in f32, bf16 and f16:

| | f32 | bf16 | f16 |
|---|---|---|---|
| product 256x768x768 by a weight [N, K] in memory | 5.6 | 31.9 | 26.2 |
| the same by a weight [K, N] | 3.9 | 249 | 247 |
| convolution 3x3 of 4x64x28x28, 64 channels | 3.0 | 114 | 95.6 |
| its gradients | 9.0 | 51.9 | 73.1 |
| gradients of attention 2x12x128x64 | 8.0 | 30.3 | 48.6 |
"""

from __future__ import annotations

import platform

import torch


def slow_in_convolutions() -> frozenset[str]:
    """The floats that are slow in convolutions and in their gradients."""
    if platform.machine() not in ("x86_64", "AMD64") or not torch.backends.mkldnn.is_available():
        return frozenset()  # measured nowhere else
    ops = torch.ops.mkldnn
    fast = {"bf16": ops._is_mkldnn_bf16_supported(), "f16": ops._is_mkldnn_fp16_supported()}
    return frozenset(name for name, is_fast in fast.items() if not is_fast)


def slow_in_products() -> frozenset[str]:
    """The floats that are slow in products of matrices and in attention. With AVX-512 our own kernels multiply f16."""
    return slow_in_convolutions() - ({"f16"} if has_wide_vectors() else set())


def has_wide_vectors() -> bool:
    """Whether torch uses AVX-512 on this machine."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512"


def has_vectors() -> bool:
    """Whether torch uses AVX-512 or AVX2 on this machine. With either, kernels of ours that read a matrix of narrow
    floats once, or the keys and values of few queries, were measured to beat libraries."""
    return torch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2")
