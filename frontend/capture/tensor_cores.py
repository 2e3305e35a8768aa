"""Whether torch lets f32 be computed in TF32, which tensor cores multiply: its settings, older and newer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def cudnn_allows_tf32() -> bool:
    """For convolutions."""
    try:
        return bool(torch.backends.cudnn.allow_tf32)
    except RuntimeError:  # what it raises where the newer setting was used
        return bool(torch.backends.cudnn.conv.fp32_precision == "tf32")  # type: ignore[attr-defined]


def products_allow_tf32() -> bool:
    """For matrix products."""
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:
        return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def settings() -> str:
    """All that compiled code may depend on, as text that is the same in every process."""
    enabled = torch.backends.cudnn.enabled
    return f"tf32: products {products_allow_tf32()}, convolutions {cudnn_allows_tf32()}, cudnn {enabled}"


@contextmanager
def without_tf32() -> Iterator[None]:
    """Lets no library compute f32 in TF32, which is a thousand times coarser: for results to compare with."""
    conv, products = torch.backends.cudnn, torch.backends.cuda.matmul
    allowed = conv.allow_tf32, products.allow_tf32
    conv.allow_tf32 = products.allow_tf32 = False
    try:
        yield
    finally:
        conv.allow_tf32, products.allow_tf32 = allowed
