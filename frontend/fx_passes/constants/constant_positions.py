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

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.constants.found_constants import constants_of, is_read, is_returned
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.python_steps import is_view

aten = torch.ops.aten

#: Ops that read or write at positions → which arguments the positions are.
_POSITIONS = {
    **dict.fromkeys((aten.index, aten._unsafe_index, aten.index_put, aten._unsafe_index_put, aten.embedding), 1),
    **dict.fromkeys((aten.gather, aten.scatter_add, aten.index_select, aten.index_add, aten.scatter), 2),
}


def hold_positions(gm: GraphModule) -> None:
    """Replaces positions that depend on no input, and what shares their arithmetic, by tensors that the graph holds.
    What the graph returns stays: its caller may write into it."""
    sources = constants_of(gm)
    positions = {base for node in gm.graph.nodes for base in map(_viewed, _positions(node)) if sources.get(base)}
    if not positions:
        return
    shared = {source for base in positions for source in sources[base]}
    computed = [node for node in sources if node.op != "get_attr" and not shared.isdisjoint(sources[node])]
    write = NodeWriter(gm, "positions")
    for node in computed:
        if is_returned(node) or (node not in positions and not is_read(node, sources)):
            continue
        constant = write.evaluated(node, node.meta["val"].device)
        if constant is not None:
            node.replace_all_uses_with(constant)
    gm.graph.eliminate_dead_code()
    gm.recompile()


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
