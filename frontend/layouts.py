"""Tensors in the layout that a graph was traced with: what Python hands to a program may be laid out otherwise."""

from __future__ import annotations

from typing import Any

import torch

from cuesta.errors import ExecutionError
from cuesta.runtime.strides import same_places


def laid_out(value: Any, meta: Any, what: str, is_read: bool = True) -> Any:
    """`value`, which `what` made; a tensor is copied where its strides are not those of `meta`.

    Raises ExecutionError where a shape or dtype is another than the graph was traced with, and `is_read`: what nobody
    computes with is what eager has, whatever torch's trace says of it.
    """
    if not isinstance(value, torch.Tensor) or not isinstance(meta, torch.Tensor) or not _is_static(meta):
        return value
    if value.is_quantized:  # whose dtype fake tensors do not tell
        return value
    if value.shape != meta.shape or value.dtype != meta.dtype:
        if not is_read:
            return value
        raise ExecutionError(
            f"{what} gave {value.dtype}{list(value.shape)}; the graph was traced with {meta.dtype}{list(meta.shape)}"
        )
    if same_places(value.shape, value.stride(), meta.stride()):
        return value
    return torch.empty_strided(meta.shape, meta.stride(), dtype=value.dtype, device=value.device).copy_(value)


def _is_static(meta: torch.Tensor) -> bool:
    return meta.layout == torch.strided and all(type(n) is int for n in (*meta.shape, *meta.stride()))
