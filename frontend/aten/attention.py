"""Imports attention: ATen's op for CPUs, and the custom ops that frontend/attention/keep_whole.py puts into a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta.dialects.cuesta import attention
from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import shape_of
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Size

#: Custom op → the dialect's op, and the number of tensors among its arguments, which come first.
_OPS: dict[str, tuple[Any, int]] = {
    "attention": (attention.Attention, 4),
    "attention_backward": (attention.AttentionBackward, 7),
    "dropout_attention": (attention.DropoutAttention, 4),
    "dropout_attention_backward": (attention.DropoutAttentionBackward, 9),
}


def _build(b: Call, kind: Any, tensors: Sequence[Value | None], scale: float, causal: bool, *chance: float) -> Any:
    return kind(*tensors, scale, causal, *chance, *b.types).operation


@imports(*_OPS, namespace="cuesta")
def whole(b: Call, *arguments: Any) -> list[Value]:
    kind, count = _OPS[b.name]
    causal, scale, *rest = arguments[count:]
    chance = [rest.pop(0)] if b.name.startswith("dropout") else []
    op = _build(b, kind, arguments[:count], scale, causal, *chance)
    attention.AnyAttention.route.put(op, rest[0])
    return list(op.results)


def _scale(q: Value, scale: float | None) -> float:
    if scale is not None:
        return scale
    head = shape_of(q)[-1]
    if isinstance(head, Size):
        raise Decline("default scale of attention whose head size depends on the call")
    return 1 / math.sqrt(head)


def _check_attention(q: Value, k: Value, v: Value, dropout_p: float) -> None:
    """Raises Decline for attention that no kernel of ours computes, such as with sizes not known to be equal."""
    if dropout_p:
        raise Decline("attention with dropout: random numbers come from torch's generator")
    batch, keys, values = shape_of(q)[0], shape_of(k)[:3], shape_of(v)[:3]
    if keys != values:
        raise Decline("keys and values are not known to have equal sizes")
    if batch != keys[0]:
        raise Decline("queries and keys are not known to have equal batch sizes")


@imports("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward")
def on_cpu(b: Call, *arguments: Any, attn_mask: Value | None = None, scale: float | None = None) -> list[Value]:
    """ATen's kernel for CPUs, which AOTAutograd keeps whole."""
    backward = b.name.endswith("backward")
    kind, count = (attention.AttentionBackward, 6) if backward else (attention.Attention, 3)
    tensors, numbers = arguments[:count], arguments[count:]
    usual: list[Any] = [0.0, False]
    dropout_p, causal = [*numbers, *usual[len(numbers) :]]
    q, k, v = tensors[1:4] if backward else tensors
    _check_attention(q, k, v, dropout_p)
    return list(_build(b, kind, (*tensors, attn_mask), _scale(q, scale), causal).results)
