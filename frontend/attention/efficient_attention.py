"""Decomposes ATen's memory-efficient attention on GPUs into cuesta's ops, where AOTAutograd calls it by itself: for a
bias with a gradient, or for calls that `frontend.attention` leaves to torch.

The kernel leaves the seed and offset of its random numbers on the CPU, but torch's fake tensors say that they are on
the GPU, where a backward graph would read the saved values. Without dropout nobody reads seed and offset; with dropout
cuesta's ops move them to the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

aten = torch.ops.aten
Results = tuple[Tensor | None, ...]


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    compute_log_sumexp: bool,
    p: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
) -> Results:
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if p:
        result: Results = torch.ops.cuesta.seeded_attention(q, k, v, bias, p, causal, scale)
    else:
        nothing = q.new_zeros((), dtype=torch.int64)
        result = (*torch.ops.cuesta.attention(q, k, v, bias, causal, scale, "efficient"), nothing, nothing)
    output, logsumexp, *seeds = result
    return output, logsumexp if compute_log_sumexp or logsumexp is None else logsumexp[..., :0], *seeds


def _backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, *rest: Any, scale: float | None = None
) -> Results:
    output, logsumexp, seed, offset, p, wanted, *causality = rest
    causal = causality[0] if causality else False
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    saved = (grad, q, k, v, output, logsumexp)
    if bias is not None and wanted[3]:
        backward = torch.ops.cuesta.biased_attention_backward
        return tuple(backward(*saved, bias, seed, offset, causal, scale, p))
    if p:
        backward = torch.ops.cuesta.dropout_attention_backward
        return (*backward(*saved, seed, offset, bias, causal, scale, p, "efficient"), None)
    return (*torch.ops.cuesta.attention_backward(*saved, bias, causal, scale, "efficient"), None)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {
    aten._scaled_dot_product_efficient_attention.default: _forward,
    aten._scaled_dot_product_efficient_attention_backward.default: _backward,
}
