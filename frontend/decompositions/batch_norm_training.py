"""Decomposes batch norm in training into cuesta's two ops (batch_norm_ops.py) and pointwise ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cuesta.frontend.decompositions.mixed_norms import is_mixed
from cuesta.torch_private.decompositions import get_decompositions
from cuesta.torch_private.symbolic_shapes import guard_or_false

aten = torch.ops.aten
_FORWARD = aten._native_batch_norm_legit_functional.default
_BACKWARD = aten.native_batch_norm_backward.default
_TORCHS = get_decompositions([_FORWARD, _BACKWARD])


def _forward(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
    running_mean, running_var, training, momentum, eps = rest
    if not training or not _fits(x):
        return _TORCHS[_FORWARD](x, weight, bias, *rest)
    numbers = (running_mean, running_var, momentum, eps)
    mean, rstd, new_mean, new_var = torch.ops.cuesta.batch_norm_statistics(x, *numbers)
    shape = [x.shape[1], *[1] * (x.dim() - 2)]
    y = (x - mean.view(shape)) * rstd.view(shape)
    y = y if weight is None else y * weight.view(shape)
    y = y if bias is None else y + bias.view(shape)
    # On a CPU eager returns mean and rstd in x's type, unless weights or running statistics are wider.
    if x.device.type == "cpu" and not is_mixed(x, weight, bias, running_mean, running_var):
        mean, rstd = mean.to(x.dtype), rstd.to(x.dtype)
    return y.to(x.dtype), mean, rstd, new_mean, new_var


def _backward(grad: Tensor, x: Tensor, weight: Tensor | None, *rest: Any) -> Any:
    _running_mean, _running_var, mean, rstd, training, _eps, mask = rest
    if not training or not _fits(x):
        return _TORCHS[_BACKWARD](grad, x, weight, *rest)
    results = torch.ops.cuesta.batch_norm_backward(grad, x, weight, mean, rstd)
    return tuple(result if wanted else None for result, wanted in zip(results, mask, strict=True))


def _fits(x: Tensor) -> bool:
    """Whether x is a float tensor that is known to have channels, and more than one element in each."""
    return x.is_floating_point() and guard_or_false(x.numel() > x.shape[1]) and guard_or_false(x.shape[1] > 0)


#: Overload → its decomposition, as AOTAutograd takes it.
DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {_FORWARD: _forward, _BACKWARD: _backward}
