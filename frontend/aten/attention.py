"""Imports the custom ops that frontend/attention/keep_whole.py puts into a graph."""

from __future__ import annotations

from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import attention
from cuesta.dialects.cuesta.dialect import float_attr, int_attr
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.frontend.rules import imports


def _build(kind: Any, node: torch.fx.Node, route: str, *arguments: Any) -> list[Value]:
    results = [types.tensor(tuple(r.shape), types.SPELLING[r.dtype]) for r in node.meta["val"]]
    op = kind(*arguments, *results).operation
    op.attributes["route"] = ir.StringAttr.get(route)
    return list(op.results)


@imports("attention", namespace="cuesta")
def forward(
    b: GraphBuilder,
    node: torch.fx.Node,
    q: Value,
    k: Value,
    v: Value,
    mask: Any,
    causal: bool,
    scale: float,
    route: str,
) -> list[Value]:
    numbers = (float_attr(scale), int_attr(causal))
    return _build(attention.Attention, node, route, q, k, v, mask, *numbers)


@imports("attention_backward", namespace="cuesta")
def backward(b: GraphBuilder, node: torch.fx.Node, *arguments: Any) -> list[Value]:
    *saved, mask, causal, scale, route = arguments
    return _build(attention.AttentionBackward, node, route, *saved, mask, float_attr(scale), int_attr(causal))


@imports("dropout_attention", namespace="cuesta")
def dropout_forward(b: GraphBuilder, node: torch.fx.Node, *arguments: Any) -> list[Value]:
    q, k, v, mask, causal, scale, p, route, _call = arguments
    numbers = (float_attr(scale), int_attr(causal), float_attr(p))
    return _build(attention.DropoutAttention, node, route, q, k, v, mask, *numbers)


@imports("dropout_attention_backward", namespace="cuesta")
def dropout_backward(b: GraphBuilder, node: torch.fx.Node, *arguments: Any) -> list[Value]:
    *saved, causal, scale, p, route = arguments
    numbers = (float_attr(scale), int_attr(causal), float_attr(p))
    return _build(attention.DropoutAttentionBackward, node, route, *saved, *numbers)
