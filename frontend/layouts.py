"""Brings tensors from Python into the layout with which a graph was traced, where their strides differ."""

from __future__ import annotations

from typing import Any

import torch

from cuesta.errors import ExecutionError
from cuesta.runtime.strides import same_places


def laid_out(value: Any, meta: Any, what: str, is_read: bool = True) -> Any:
    """`value`, or a copy with the strides of `meta` where a tensor's strides differ from those. `what`, for the error
    message, names where the value comes from.

    Raises ExecutionError where the shape or dtype differs from `meta` and `is_read`. A value that no other node reads
    is returned as it is: it is eager's result, even where torch traced it wrongly.
    """
    if not isinstance(value, torch.Tensor) or not isinstance(meta, torch.Tensor) or not _is_static(meta):
        return value
    if value.is_quantized:  # fake tensors do not have its quantised dtype
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
