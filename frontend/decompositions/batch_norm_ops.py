"""Defines two custom ops for batch norm in training: one for its statistics, one for its gradients.

    mean, rstd, new_mean, new_var = cuesta::batch_norm_statistics(x, running_mean, running_var, momentum, eps)
    dx, dweight, dbias = cuesta::batch_norm_backward(grad, x, weight, mean, rstd)

torch's own decompositions turn a layer into more than 40 ops, each of which AOTAutograd traces and partitions. For a
DenseNet's training step, that is most of the time before there is a graph to compile. batch_norm_training.py uses these
two ops instead, and the importer decomposes them. The pointwise part is separate from the statistics, so that the
partitioner may recompute it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cuesta.torch_private.decompositions import get_decompositions

_BACKWARD = torch.ops.aten.native_batch_norm_backward.default
_TORCHS = get_decompositions([_BACKWARD])


@torch.library.custom_op("cuesta::batch_norm_statistics", mutates_args=())
def statistics(
    x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and 1 / sqrt(var + eps) of each channel, in the type of `computed_in`; the new running statistics."""
    var, mean = torch.var_mean(x.to(computed_in(x)), _dims(x), correction=0)
    count = x.numel() // x.shape[1]
    unbiased = var * (count / (count - 1))
    news = [momentum * new + (1 - momentum) * old for new, old in ((mean, running_mean), (unbiased, running_var))]
    return mean, torch.rsqrt(var + eps), news[0], news[1]


@statistics.register_fake
def _fake_statistics(
    x: Tensor, running_mean: Tensor, running_var: Tensor, momentum: float, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    kind = computed_in(x)
    kinds = [torch.promote_types(kind, old.dtype) for old in (running_mean, running_var)]
    first, second, third, fourth = (x.new_empty(x.shape[1], dtype=dtype) for dtype in (kind, kind, *kinds))
    return first, second, third, fourth


@torch.library.custom_op("cuesta::batch_norm_backward", mutates_args=())
def backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of x, of the weight and of the bias."""
    mask = [True, True, True]
    dx, dweight, dbias = _TORCHS[_BACKWARD](grad, x, weight, None, None, mean, rstd, True, 0.0, mask)
    return torch.empty_like(x).copy_(dx), dweight, dbias


@backward.register_fake
def _fake_backward(
    grad: Tensor, x: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    own = x.dtype if weight is None else weight.dtype
    dweight, dbias = (x.new_empty(x.shape[1], dtype=own) for _ in range(2))
    return torch.empty_like(x), dweight, dbias


def computed_in(x: Tensor) -> torch.dtype:
    """The type in which batch norm of x computes."""
    return torch.float32 if x.dtype in (torch.float16, torch.bfloat16) else x.dtype


def _dims(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]
