"""Drops attention masks that are constants once a graph's symbolic sizes are numbers.

With dynamic shapes, Dynamo's graph has masks of unknown sizes, which may not be classified. When the graph
is specialised to the sizes of a call, they are known, and attention is still one op:

    cuesta.attention(q, k, v, where(kv <= q, 0, -inf), False, …)   →   cuesta.attention(q, k, v, None, True, …)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule, Node

from cuesta.frontend.attention.constant_masks import classify_mask
from cuesta.frontend.constant_nodes import erase_unused


@dataclass(frozen=True)
class _Places:
    """Positions of q (k follows), mask and `causal` among a call's arguments; a name stands for a keyword argument."""

    q: int
    mask: int | str
    causal: int


#: Overload of an attention op → the positions of its arguments.
_CALLS = {
    "cuesta.attention.default": _Places(0, 3, 4),
    "cuesta.attention_backward.default": _Places(1, 6, 7),
    "cuesta.dropout_attention.default": _Places(0, 3, 4),
    "cuesta.dropout_attention_backward.default": _Places(1, 8, 9),
    "aten._scaled_dot_product_flash_attention_for_cpu.default": _Places(0, "attn_mask", 4),
    "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": _Places(1, "attn_mask", 7),
}


def prove_masks(gm: GraphModule) -> None:
    """Drops the masks of an ATen graph that hide nothing or are causal, and sets "causal" for the latter, in place."""
    loose: list[Node] = []
    for node in gm.graph.nodes:
        places = _CALLS.get(str(node.target))
        mask = None if places is None else _get(node, places.mask)
        if places is None or not isinstance(mask, Node):
            continue
        length, keys = (node.args[i].meta["val"].shape[2] for i in (places.q, places.q + 1))
        kind = classify_mask(mask, node, length, keys)
        # Where rows and columns differ in number, not every kernel aligns "causal" to the first row and column.
        if kind is None or (kind == "causal" and length != keys):
            continue
        # A call of ATen's forward op may omit dropout and `is_causal`, whose defaults are 0.0 and False.
        arguments = [*node.args, *(0.0, False)[len(node.args) - 3 :]] if len(node.args) < 5 else [*node.args]
        arguments[places.causal] = kind == "causal"
        if isinstance(places.mask, int):
            arguments[places.mask] = None
        else:
            node.kwargs = {k: v for k, v in node.kwargs.items() if k != places.mask}
        node.args = tuple(arguments)
        loose.append(mask)
    if loose:
        erase_unused(loose)
        gm.recompile()


def _get(node: Node, place: int | str) -> Any:
    return node.kwargs.get(place) if isinstance(place, str) else node.args[place]
