"""Computes positions that depend on no input once, while compiling.

    %i = convert(clamp(mul(arange(512), 0.25)))          held: %i
    %w = sub(mul(arange(512), 0.25), %i)            →    held: %w
    index(%x, [%i]), mul(…, %w)                          index(%x, [%i]), mul(…, %w)

Other values that are computed from the same numbers are held as well, such as the weights of a resized image's corners.
There a position is the whole part of a product or a sum, and the weight is the rest of it. A kernel may round a
multiplication and an addition once instead of twice. So the weight of one arithmetic may not fit the position of the
other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_values import is_held_constant
from cuesta.frontend.fx_nodes import makes, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.python_steps import is_view
from cuesta.torch_private.ops import OpOverload, schema_of

aten = torch.ops.aten

#: The most elements of a tensor that the graph then holds.
_LARGEST = 1 << 20
#: Ops that read or write at positions → which arguments the positions are.
_POSITIONS = {
    **dict.fromkeys((aten.index, aten._unsafe_index, aten.index_put, aten._unsafe_index_put, aten.embedding), 1),
    **dict.fromkeys((aten.gather, aten.scatter_add, aten.index_select, aten.index_add, aten.scatter), 2),
}
#: Ops whose results have no values yet.
_UNWRITTEN = frozenset({aten.empty, aten.empty_strided, aten.empty_permuted})


def hold_positions(gm: GraphModule) -> None:
    """Replaces positions that depend on no input, and what shares their arithmetic, by tensors that the graph holds."""
    sources = constants_of(gm)
    positions = {base for node in gm.graph.nodes for base in map(_viewed, _positions(node)) if sources.get(base)}
    if not positions:
        return
    shared = {source for base in positions for source in sources[base]}
    computed = [node for node in sources if node.op != "get_attr" and not shared.isdisjoint(sources[node])]
    write = NodeWriter(gm, "positions")
    for node in computed:
        if node not in positions and not _leaves(node, sources):
            continue
        constant = write.evaluated(node, node.meta["val"].device)
        if constant is not None:
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
            own = frozenset[Node]() if is_view(node) else frozenset({node})
            found[node] = own.union(*(found[n] for n in node.all_input_nodes))
    return found


def _is_held(value: Tensor) -> bool:
    """Whether the graph may hold a value of these sizes."""
    if value.layout != torch.strided or not all(isinstance(n, int) for n in value.shape):
        return False
    return value.untyped_storage().nbytes() <= 8 * _LARGEST


def _leaves(node: Node, sources: dict[Node, Any]) -> bool:
    """Whether nodes that depend on an input read `node`."""
    return not is_view(node) and any(_is_read(user, sources) for user in node.users)


def _is_read(user: Node, sources: dict[Node, Any]) -> bool:
    """Whether `user` depends on an input, or is a view that such a node reads."""
    if user in sources and is_view(user):
        return any(_is_read(n, sources) for n in user.users)
    return user not in sources


def _positions(node: Node) -> Iterator[Node]:
    """The positions that `node` reads or writes at."""
    at = _POSITIONS.get(packet_of(node))
    if at is None:
        return
    given = node.args[at]
    for position in given if isinstance(given, (list, tuple)) else [given]:
        if isinstance(position, Node):
            yield position


def _viewed(node: Node) -> Node:
    """What `node` is a view of, or the node itself."""
    while is_view(node):
        node = node.args[0]  # type: ignore[assignment]
    return node
