"""Reads torch's settings, older and newer, that allow f32 products in TF32 on tensor cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cudnn_allows_tf32() -> bool:
    """Whether torch allows TF32 for convolutions."""
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # raised where the user has set the newer setting
        return bool(torch.backends.cudnn.conv.fp32_precision == "tf32")  # type: ignore[attr-defined]


def products_allow_tf32() -> bool:
    """Whether torch allows TF32 for matrix products."""
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def cudnn_kernels(result: torch.Tensor) -> str | None:
    """How cuDNN computes a convolution with this result under torch's settings: with "tensor_cores", or in "full"
    f32; None where it does not."""
    if result.device.type != "cuda" or not torch.backends.cudnn.enabled:
        return None
    if result.dtype in (torch.bfloat16, torch.float16):
        return "tensor_cores"
    return None if result.dtype != torch.float32 else ("tensor_cores" if cudnn_allows_tf32() else "full")


def settings() -> str:
    """The settings that compiled code may depend on, as text that is the same in every process."""
    enabled = torch.backends.cudnn.enabled
    return f"tf32: products {products_allow_tf32()}, convolutions {cudnn_allows_tf32()}, cudnn {enabled}"


@contextmanager
def without_tf32() -> Iterator[None]:
    """A context in which no library computes f32 in TF32, which is a thousand times coarser: for reference results."""
    conv, products = torch.backends.cudnn, torch.backends.cuda.matmul
    allowed, precision = (conv.allow_tf32, products.allow_tf32), products.fp32_precision
    conv.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        conv.allow_tf32, products.allow_tf32 = allowed
        products.fp32_precision = precision  # was "none", perhaps, and is "ieee" now: Dynamo guards it since 2.15
