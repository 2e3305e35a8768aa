"""Keeps mean and rstd of a narrow x with wider weights in f32 on a CPU, as eager does.

    y, mean, rstd = native_layer_norm(x, …)     →     y, mean, rstd = native_layer_norm(x.to(f32), …)
      : bf16, bf16, bf16                                  : f32, f32, f32;  y.to(bf16)

Autocast makes such norms. torch's fake tensors have mean and rstd in the type of x. The gradient of x, which is
computed from them, would be off by half as much again as eager's. An instance norm is a batch norm without running
statistics; a batch norm with them does the same for itself (batch_norm_training.py).
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


def _whole(*_: Any) -> Any:
    return NotImplemented


def _in_f32(op: Any, weight: int, otherwise: Callable[..., Any] = _whole) -> Callable[..., Any]:
    """The decomposition of a norm whose arguments number `weight` and the next are weight and bias. `otherwise` is that
    of calls whose tensors are all of one type."""

    def norm(x: Tensor, *rest: Any) -> Any:
        parameters = [value for value in rest[weight - 1 : weight + 1] if value is not None]
        is_mixed = x.dtype in _NARROW and any(value.dtype == torch.float32 for value in parameters)
        if not is_mixed or x.device.type != "cpu":
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
