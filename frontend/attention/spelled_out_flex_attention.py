"""Replaces flex_attention by the ops that define it, so that it is compiled with the ops around it.

    %r = flex_attention(%q, %k, %v, %score, (…, %mask), 0.125, …)      %score, %mask: graphs of one score
 →  %s = mul(matmul(%q, %k^T), 0.125)
    %t = where(%mask of all positions, %score of %s and all positions, -inf)
    %r = matmul(softmax(%t), %v), logsumexp(%t) / ln 2, amax(%t) / ln 2

This happens after AOTAutograd has split the training step: the backward graph computes the weights again, from what
torch saves, so no tensor of all scores is saved. A block mask's tables are not read: they say where its function hides
whole blocks, which the function says as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from cuesta.frontend.attention.spelling import product, spell_out, wide_type
from cuesta.frontend.decompositions.table import decompositions_of
from cuesta.options import Options
from cuesta.torch_private.ops import HigherOrderOperator

aten = torch.ops.aten

#: torch returns logarithms to base 2.
_LN_2 = math.log(2)


def spell_out_flex_attention(gm: GraphModule, options: Options) -> None:
    """Replaces each call of flex_attention and of its gradients in a graph, in place."""
    found = [n for n in gm.graph.nodes if isinstance(n.target, HigherOrderOperator) and n.target.name() in _SPELLINGS]
    if not found:
        return
    from cuesta.torch_private.flex_attention import add_at_positions

    table = {**decompositions_of(options), add_at_positions(): _sums_at}
    spell_out(gm, {call: _SPELLINGS[call.target.name()] for call in found}, table)


@dataclass(frozen=True)
class _Scores:
    """The scores [B, H, L, S] of a call and what its functions make of them; k and v have as many heads as q."""

    q: Tensor
    k: Tensor
    v: Tensor
    #: q · k, scaled, in f32 (f64 for f64)
    plain: Tensor
    #: the plain scores after the score function; -inf where the mask hides them
    seen: Tensor
    #: where the mask lets a score be seen
    visible: Tensor
    positions: list[Tensor]

    @staticmethod
    def of(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        score: Callable[..., Any],
        mask: Callable[..., Any],
        scale: float,
        captured: Sequence[Any],
        in_mask: Sequence[Any],
    ) -> _Scores:
        from cuesta.torch_private.flex_attention import for_all_scores

        k, v = _as_many_heads(k, q), _as_many_heads(v, q)
        plain = product(q, k.transpose(-2, -1)) * scale
        # The functions were traced with positions of 32 bits.
        positions = [torch.arange(n, device=q.device, dtype=torch.int32) for n in plain.shape]
        visible = for_all_scores(mask, 0, len(in_mask))(*positions, *in_mask)
        changed = for_all_scores(score, 1, len(captured))(plain, *positions, *captured)
        return _Scores(q, k, v, plain, torch.where(visible, changed.to(wide_type(q)), -math.inf), visible, positions)


def _as_many_heads(x: Tensor, q: Tensor) -> Tensor:
    """Keys or values with the batch of q, and each head repeated for the heads of q that read it."""
    group = q.size(1) // x.size(1)
    x = x.expand(q.size(0), -1, -1, -1)
    return x if group == 1 else x.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score: Callable[..., Any],
    block_mask: Sequence[Any],
    scale: float,
    _options: Any,
    captured: Sequence[Any] = (),
    in_mask: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and the logsumexp and the maximum of each row of scores, to base 2."""
    scores = _Scores.of(q, k, v, score, block_mask[-1], scale, captured, in_mask)
    weights = aten._safe_softmax(scores.seen, -1).to(q.dtype)
    return weights @ scores.v.to(q.dtype), scores.seen.logsumexp(-1) / _LN_2, scores.seen.amax(-1) / _LN_2


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    output: Tensor,
    logsumexp: Tensor,
    grad: Tensor | None,
    grad_logsumexp: Tensor | None,
    score: Callable[..., Any],
    joint: Callable[..., Any],
    block_mask: Sequence[Any],
    scale: float,
    _options: Any,
    captured: Sequence[Any] = (),
    in_mask: Sequence[Any] = (),
) -> tuple[Tensor, Tensor, Tensor, tuple[Any, ...]]:
    """The gradients of q, k, v, and of each captured tensor (None for one that needs none)."""
    from cuesta.torch_private.flex_attention import gradients_for_all_scores

    scores = _Scores.of(q, k, v, score, block_mask[-1], scale, captured, in_mask)
    wide = wide_type(q)
    # A row that sees nothing has the logsumexp -inf, and no weights.
    base = torch.where(logsumexp == -math.inf, 0.0, logsumexp * _LN_2).unsqueeze(-1)
    weights = torch.exp(scores.seen - base)
    grad = torch.zeros_like(output) if grad is None else grad
    # For each row, the number that the gradient of softmax takes off the gradient of every weight.
    common = (output.to(wide) * grad.to(wide)).sum(-1, keepdim=True)
    if grad_logsumexp is not None:
        common = common - (grad_logsumexp / _LN_2).unsqueeze(-1)
    of_seen = weights * (product(grad, scores.v.transpose(-2, -1)) - common)
    gradients = gradients_for_all_scores(joint, len(captured))
    of_plain, _, _, _, _, *of_captured = gradients(scores.plain, *scores.positions, of_seen, *captured)
    of_plain = torch.where(scores.visible, of_plain * scale, 0.0).to(q.dtype)
    dq = of_plain @ scores.k
    dk = _of_own_heads(of_plain.transpose(-2, -1) @ q, k)
    dv = _of_own_heads(weights.to(q.dtype).transpose(-2, -1) @ grad, v)
    return dq, dk, dv, tuple(of_captured)


def _of_own_heads(gradient: Tensor, x: Tensor) -> Tensor:
    """The gradient of keys or values from that of `_as_many_heads`."""
    group = gradient.size(1) // x.size(1)
    if group != 1:
        gradient = gradient.unflatten(1, (x.size(1), group)).sum(2)
    return gradient if gradient.size(0) == x.size(0) else gradient.sum(0, keepdim=True)


def _sums_at(shape: Sequence[int], indices: Sequence[Tensor], values: Tensor) -> Tensor:
    """Zeros of `shape` to which the values are added at the indices. An index of heads is the same for all batches,
    queries and keys: values that share all their indices are summed before."""
    alike = [d for d in range(values.dim()) if all(index.stride(d) == 0 for index in indices)]
    if alike:
        values = values.sum(alike, keepdim=True)
        for d in alike:
            indices = [index.narrow(d, 0, 1) for index in indices]
    return values.new_zeros(shape).index_put(list(indices), values, accumulate=True)


#: The name of each higher-order op → what it computes.
_SPELLINGS: dict[str, Callable[..., Any]] = {"flex_attention": _forward, "flex_attention_backward": _backward}
