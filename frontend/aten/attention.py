"""Imports the custom ops that frontend/attention/keep_whole.py puts into a graph."""

from __future__ import annotations

from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import attention
from cuesta.dialects.cuesta.dialect import float_attr, int_attr
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.frontend.rules import imports, op_name

#: Custom op → the dialect's op, and the number of tensors among its arguments, which come first.
_OPS: dict[str, tuple[Any, int]] = {
    "attention": (attention.Attention, 4),
    "attention_backward": (attention.AttentionBackward, 7),
    "dropout_attention": (attention.DropoutAttention, 4),
    "dropout_attention_backward": (attention.DropoutAttentionBackward, 9),
}


@imports(*_OPS, namespace="cuesta")
def whole(b: GraphBuilder, node: torch.fx.Node, *arguments: Any) -> list[Value]:
    kind, count = _OPS[op_name(node)]
    causal, scale, *rest = arguments[count:]
    chance = [float_attr(rest.pop(0))] if op_name(node).startswith("dropout") else []
    results = [types.tensor(tuple(r.shape), types.SPELLING[r.dtype]) for r in node.meta["val"]]
    op = kind(*arguments[:count], float_attr(scale), int_attr(causal), *chance, *results).operation
    op.attributes["route"] = ir.StringAttr.get(rest[0])
    return list(op.results)
