"""Scaled dot-product attention, whole, forward and backward."""

from typing import Any

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operation, reference, verifier

aten = torch.ops.aten


class Attention(Operation, name="attention", traits=[ext.Pure]):
    """softmax(q @ k.T * scale + mask) @ v.

    q is [B, H, L, D], k and v [B, H, S, D]; an additive or boolean mask broadcasts to [B, H, L, S].
    `causal` is 1 where row i sees columns ≤ i. Results: the output [B, H, L, D] and the logsumexp of
    each row [B, L, H] in f32.
    """

    q: ext.Operand[Any]
    k: ext.Operand[Any]
    v: ext.Operand[Any]
    mask: ext.Operand[Any] | None
    scale: ir.FloatAttr
    causal: ir.IntegerAttr
    output: ext.Result[Any]
    logsumexp: ext.Result[Any]


class AttentionBackward(Operation, name="attention_backward", traits=[ext.Pure]):
    """The gradients of q, k and v from the output's gradient and what the forward op took and gave."""

    grad: ext.Operand[Any]
    q: ext.Operand[Any]
    k: ext.Operand[Any]
    v: ext.Operand[Any]
    output: ext.Operand[Any]
    logsumexp: ext.Operand[Any]
    mask: ext.Operand[Any] | None
    scale: ir.FloatAttr
    causal: ir.IntegerAttr
    dq: ext.Result[Any]
    dk: ext.Result[Any]
    dv: ext.Result[Any]


@reference("attention")
def _attention(op: ir.Operation, xs: list[torch.Tensor]) -> Any:
    mask = xs[3] if len(xs) == 4 else None
    causal, scale = bool(op.attributes["causal"].value), op.attributes["scale"].value
    return aten._scaled_dot_product_flash_attention_for_cpu(*xs[:3], 0.0, causal, attn_mask=mask, scale=scale)


@reference("attention_backward")
def _attention_backward(op: ir.Operation, xs: list[torch.Tensor]) -> Any:
    mask = xs[6] if len(xs) == 7 else None
    causal, scale = bool(op.attributes["causal"].value), op.attributes["scale"].value
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return backward(*xs[:6], 0.0, causal, attn_mask=mask, scale=scale)


@verifier("attention")
def _verify(op: ir.Operation) -> str | None:
    q, k, v = (types.shape_of(x) for x in list(op.operands)[:3])
    if len(q) != 4 or q[-1] != k[-1] or k[-2] != v[-2]:
        return f"q {list(q)}, k {list(k)} and v {list(v)} do not fit: want [B, H, L, D], [B, H, S, D], [B, H, S, D]"
    return None
