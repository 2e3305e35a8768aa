"""Brings attention whose tensors have three, or more than four, dims into four: torch has no kernel for others, and
multiplies narrow floats in f32 there.

    %r = scaled_dot_product_attention(%q, %k, %v)          of [2, 3, 49, 16, 32]
 →  %q4, %k4, %v4 = flatten(%q, 1, 2), …                   of [2, 147, 16, 32]
    %r4 = scaled_dot_product_attention(%q4, %k4, %v4)
    %r = reshape(%r4, [2, 3, 49, 16, 32])

Models write windows of images so. To flatten may take copies.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

SDPA = torch.nn.functional.scaled_dot_product_attention


def in_four_dims(node: Node) -> Node:
    """Rewrites a call of scaled_dot_product_attention in Dynamo's graph, in place. Returns the call of four dims. It is
    the node itself if that has four dims, if the tensors' outer dims differ or depend on the call, or if a mask has
    outer dims."""
    call = {**dict(zip(("query", "key", "value", "attn_mask"), node.args, strict=False)), **node.kwargs}
    factors: list[Any] = [call.pop(name, None) for name in ("query", "key", "value")]
    q, k, v = map(plain_meta, factors)
    output, mask = plain_meta(node), call.get("attn_mask")
    if q is None or k is None or v is None or output is None or len(node.args) > 4:
        return node
    outer = q.shape[:-2]
    if q.dim() in (2, 4) or not outer == k.shape[:-2] == v.shape[:-2] or not all(isinstance(n, int) for n in outer):
        return node
    if mask is not None and ((shown := plain_meta(mask)) is None or shown.dim() > 2):
        return node
    how = ("unsqueeze", 1) if q.dim() == 3 else ("flatten", 1, -3)
    with node.graph.inserting_before(node):
        flat = [_method(node, x, *how) for x in factors]
        whole = node.graph.call_function(SDPA, tuple(flat), call)
        inner = flat[0].meta["example_value"].shape[:-1]
        whole.meta = {**node.meta, "example_value": output.new_empty(*inner, output.shape[-1])}
        result = _method(node, whole, *(("squeeze", 1) if q.dim() == 3 else ("unflatten", 1, tuple(outer[1:]))))
    node.replace_all_uses_with(result)
    node.graph.erase_node(node)
    return whole


def plain_meta(x: Any) -> Tensor | None:
    """The fake tensor of a node; None where that has no plain strided tensor."""
    value = x.meta.get("example_value") if isinstance(x, Node) else None
    return value if isinstance(value, Tensor) and value.layout == torch.strided and not value.is_nested else None


def _method(like: Node, x: Node, name: str, *args: Any) -> Node:
    """A call of a tensor's method, at the place in the user's code that `like` is from."""
    new = like.graph.call_method(name, (x, *args))
    new.meta = {**like.meta, "example_value": getattr(x.meta["example_value"], name)(*args)}
    return new
