"""Computes positions that depend on no input once, while compiling.

    %i = convert(clamp(mul(arange(512), 0.25)))          held: %i
    %w = sub(mul(arange(512), 0.25), %i)            →    held: %w
    index(%x, [%i]), mul(…, %w)                          index(%x, [%i]), mul(…, %w)

What else is computed from the same numbers, such as the weights of a resized image's corners, is computed with them. A
kernel may round a multiplication and an addition once instead of twice, and where a position is the whole part of such
a sum, its weight has to be the rest of the same sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate, is_held_constant
from cuesta.frontend.fx_nodes import makes, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.torch_private.ops import OpOverload, schema_of

aten = torch.ops.aten

#: The most elements of a tensor that the graph then holds.
_LARGEST = 1 << 20
#: Ops that read or write at positions → which arguments the positions are.
_POSITIONS = {
    **dict.fromkeys((aten.index, aten._unsafe_index, aten.index_put, aten._unsafe_index_put, aten.embedding), 1),
    **dict.fromkeys((aten.gather, aten.scatter_add, aten.index_select, aten.index_add, aten.scatter), 2),
}
#: Ops whose results are views of their operand; what they view is computed once.
_VIEWS = frozenset({aten.expand, aten.unsqueeze, aten.squeeze, aten.view, aten.reshape, aten.permute, aten.alias})
_UNWRITTEN = frozenset({aten.empty, aten.empty_strided, aten.empty_permuted})


def hold_positions(gm: GraphModule) -> None:
    """Replaces positions that depend on no input, and what shares their arithmetic, by tensors that the graph holds."""
    sources = constants_of(gm)
    positions = {base for node in gm.graph.nodes for base in map(_viewed, _positions(node)) if sources.get(base)}
    if not positions:
        return
    shared = {source for base in positions for source in sources[base]}
    held = [
        node
        for node, own in sources.items()
        if own
        and node.op != "get_attr"
        and (node in positions or (not shared.isdisjoint(own) and _leaves(node, sources)))
    ]
    write = NodeWriter(gm, "positions")
    for node in held:
        try:
            value = evaluate(node, node)
        except NotConstant:
            continue
        with gm.graph.inserting_before(node):
            constant = write.constant(value, node.meta["val"].device)
        node.replace_all_uses_with(constant)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def constants_of(gm: GraphModule) -> dict[Node, frozenset[Node]]:
    """The nodes that depend on no input → those among the nodes that compute them, themselves included, that are more
    than one number or one `arange`."""
    found: dict[Node, frozenset[Node]] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op == "get_attr" and is_held_constant(node):
            found[node] = frozenset({node})
        if not isinstance(value, Tensor) or not isinstance(node.target, OpOverload) or not _is_held(value):
            continue
        if schema_of(node.target).is_mutable or torch.Tag.nondeterministic_seeded in node.target.tags:
            continue
        if makes(node):
            if packet_of(node) not in _UNWRITTEN and not node.all_input_nodes:
                found[node] = frozenset()
        elif all(n in found for n in node.all_input_nodes):
            own = frozenset[Node]() if packet_of(node) in _VIEWS else frozenset({node})
            found[node] = own.union(*(found[n] for n in node.all_input_nodes))
    return found


def _is_held(value: Tensor) -> bool:
    """Whether the graph may hold a value of these sizes."""
    if value.layout != torch.strided or not all(isinstance(n, int) for n in value.shape):
        return False
    return value.untyped_storage().nbytes() <= 8 * _LARGEST


def _leaves(node: Node, sources: dict[Node, Any]) -> bool:
    """Whether nodes that depend on an input read `node`."""
    return packet_of(node) not in _VIEWS and any(_is_read(user, sources) for user in node.users)


def _is_read(user: Node, sources: dict[Node, Any]) -> bool:
    if user in sources and packet_of(user) in _VIEWS:
        return any(_is_read(n, sources) for n in user.users)
    return user not in sources


def _positions(node: Node) -> Iterator[Node]:
    at = _POSITIONS.get(packet_of(node))
    if at is None:
        return
    given = node.args[at]
    for position in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(position, Node):
            yield position


def _viewed(node: Node) -> Node:
    while packet_of(node) in _VIEWS and isinstance(node.args[0], Node):
        node = node.args[0]
    return node
