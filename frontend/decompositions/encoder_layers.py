"""Decomposes the ops that nn.TransformerEncoderLayer and nn.MultiheadAttention call in evaluation, one op a layer.

    x + attention(norm(x)), then + feed_forward(norm(…))     with norm_first
    norm(x + attention(x)), then norm(… + feed_forward(…))   without

ATen's ops compute the same, but each of their parts separately: nothing is fused. A mask hides where it is not 0, as in
ATen's kernels: torch's layers pass masks of 0 and -inf.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten

#: The values of `mask_type`: a mask [L, S] of scores, one [B, S] of keys, or one of the whole scores [B, H, L, S].
_OF_SCORES, _OF_KEYS, _WHOLE = 0, 1, 2


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    size: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """(The output [B, L, E], the attention weights [B, L, S], or [B, H, L, S] if they are not averaged, or None)."""
    if mask is not None and mask_type not in (_OF_SCORES, _OF_KEYS, _WHOLE):
        return NotImplemented  # ATen raises
    q, k, v = (_heads(x, heads) for x in _projected(query, key, value, qkv_weight, qkv_bias))
    if mask is None and not need_weights:
        attended, weights = F.scaled_dot_product_attention(q, k, v), None
    else:
        scores = q @ k.mT / math.sqrt(size // heads)
        if mask is not None:
            hidden = mask.to(torch.bool)
            scores = scores.masked_fill(hidden[:, None, None] if mask_type == _OF_KEYS else hidden, -math.inf)
        weights = scores.softmax(-1)
        attended = weights @ v
    output = F.linear(attended.transpose(1, 2).flatten(2), weight, bias)
    if weights is None or not need_weights:
        return output, None
    return output, weights.mean(1) if average_weights else weights


def _projected(query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
    if query is key is value:
        return F.linear(query, weight, bias).chunk(3, -1)
    operands = zip((query, key, value), weight.chunk(3), bias.chunk(3), strict=True)
    return tuple(F.linear(x, w, b) for x, w, b in operands)


def _heads(x: Tensor, heads: int) -> Tensor:
    """[B, L, E] → [B, H, L, E / H]."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def encoder_layer(
    x: Tensor,
    size: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    weight: Tensor,
    bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *parameters: Any,
) -> Any:
    """The layer's output [B, L, E]. `parameters` are weight and bias of both norms and both linear layers, then the
    mask and its type, if given."""
    first, second, widen, narrow = (parameters[i : i + 2] for i in (0, 2, 4, 6))
    mask, mask_type = (*parameters[8:], None, None)[:2]

    def norm(x: Tensor, parameters: Any) -> Tensor:
        scale, shift = parameters
        return F.layer_norm(x, (size,), scale, shift, eps)

    def attend(x: Tensor) -> Any:
        projections = (qkv_weight, qkv_bias, weight, bias)
        return attention(x, x, x, size, heads, *projections, mask, need_weights=False, mask_type=mask_type)

    def feed_forward(x: Tensor) -> Tensor:
        wide = F.linear(x, *widen)
        # ATen's layer for CUDA multiplies and activates by aten._addmm_activation, whose gelu is the approximate one.
        gelu = functools.partial(F.gelu, approximate="tanh" if x.is_cuda else "none")
        return F.linear(gelu(wide) if use_gelu else F.relu(wide), *narrow)

    attended = attend(norm(x, first) if norm_first else x)
    if attended is NotImplemented:
        return NotImplemented
    x = attended[0] + x
    if norm_first:
        return x + feed_forward(norm(x, second))
    x = norm(x, first)
    return norm(x + feed_forward(x), second)


DECOMPOSITIONS: dict[Any, Any] = {
    aten._native_multi_head_attention.default: attention,
    aten._transformer_encoder_layer_fwd.default: encoder_layer,
}
