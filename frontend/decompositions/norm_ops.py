"""Defines a custom op for the result of a layer norm or group norm whose statistics are known.

    y = cuesta::normalised(x, mean, rstd, weight, bias, groups)

A backward graph that has x, mean and rstd computes y element by element (recomputed_chains.py).
"""

from __future__ import annotations

import torch
from torch import Tensor


@torch.library.custom_op("cuesta::normalised", mutates_args=())
def normalised(
    x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int
) -> Tensor:
    """(x - mean) * rstd * weight + bias, in the type of x.

    With `groups`, x has the shape [samples, channels, ...], mean and rstd have [samples, groups], weight and bias
    [channels]. Without (0), all of them broadcast to x.
    """
    own, kept = x.shape, x.dtype
    kind = torch.promote_types(x.dtype, mean.dtype)
    if groups:
        samples, channels, *pixels = own
        space = [samples, groups, channels // groups, *pixels]
        x, mean, rstd = x.reshape(space), *(v.reshape(samples, groups, *[1] * (len(space) - 2)) for v in (mean, rstd))
        along = [1, groups, channels // groups, *[1] * len(pixels)]
        weight, bias = (None if v is None else v.reshape(along) for v in (weight, bias))
    y = (x.to(kind) - mean) * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(kept).reshape(own)


@normalised.register_fake
def _fake(x: Tensor, mean: Tensor, rstd: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int) -> Tensor:
    return torch.empty_like(x)
