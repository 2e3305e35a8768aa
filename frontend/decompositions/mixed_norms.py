"""Keeps mean and rstd of a narrow x with wider weights in f32 on a CPU, as eager does.

    y, mean, rstd = native_layer_norm(x, …)     →     y, mean, rstd = native_layer_norm(x.to(f32), …)
      : bf16, bf16, bf16                                  : f32, f32, f32;  y.to(bf16)

Autocast makes such norms. torch's fake tensors have mean and rstd in the type of x. The gradient of x, which is
computed from them, would have 1.5 times the error of eager's. An instance norm is a batch norm without running
statistics; the decomposition of a batch norm with them is in batch_norm_training.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cuesta.torch_private.decompositions import get_decompositions

_ATEN = torch.ops.aten
_WITHOUT_RUNNING = _ATEN._native_batch_norm_legit.no_stats
_NARROW = (torch.bfloat16, torch.float16)


def is_mixed(x: Tensor, *others: Tensor | None) -> bool:
    """Whether x is narrow and one of `others`, a norm's parameters and running statistics, is f32."""
    return x.dtype in _NARROW and any(other is not None and other.dtype == torch.float32 for other in others)


def _whole(*_: Any) -> Any:
    return NotImplemented


def _in_f32(op: Any, weight: int, otherwise: Callable[..., Any] = _whole) -> Callable[..., Any]:
    """The decomposition of `op`, a norm whose weight is argument number `weight` and whose bias is the next one.
    `otherwise` decomposes the calls whose tensors are all of one type."""

    def norm(x: Tensor, *rest: Any) -> Any:
        if x.device.type != "cpu" or not is_mixed(x, *rest[weight - 1 : weight + 1]):
            return otherwise(x, *rest)
        y, mean, rstd = op(x.to(torch.float32), *rest)
        return y.to(x.dtype), mean, rstd

    return norm


#: Overload → its decomposition, as AOTAutograd takes it.
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    _ATEN.native_layer_norm.default: _in_f32(_ATEN.native_layer_norm.default, 2),
    _ATEN.native_group_norm.default: _in_f32(_ATEN.native_group_norm.default, 1),
    _WITHOUT_RUNNING: _in_f32(_WITHOUT_RUNNING, 1, get_decompositions([_WITHOUT_RUNNING])[_WITHOUT_RUNNING]),
}
