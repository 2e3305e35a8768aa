"""Merges equal nodes of a joint graph before the graph is split.

torch's partitioner can do this too (`torch._functorch.config.cse`), with two functions of a module that loads all of
Inductor's lowerings: more than a second of every process that trains.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.fx import Node

from cuesta.frontend.capture.streams import stream_of
from cuesta.frontend.fx_nodes import storage_of
from cuesta.torch_private.ops import HigherOrderOperator, OpOverload, schema_of
from cuesta.torch_private.pytree import tree_flatten

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def merge_equal_nodes(graph: torch.fx.Graph) -> None:
    """Replaces each node by the first node that computes the same from the same operands.

    Nodes stay that draw random numbers, allocate uninitialised memory, share memory with a result of the graph (results
    that eager keeps apart stay apart), run on different streams, or come after a write.
    """
    results = {storage_of(node) for node in graph.output_node().all_input_nodes} - {None}
    first: dict[Hashable, Node] = {}
    for node in list(graph.nodes):
        if _writes(node):
            return
        if node.op != "call_function" or not _is_value(node) or storage_of(node) in results:
            continue
        meaning = _meaning(node)
        if meaning is None:
            continue
        earlier = first.setdefault(meaning, node)
        if earlier is not node:
            node.replace_all_uses_with(earlier)
            graph.erase_node(node)


def _writes(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and schema_of(node.target).is_mutable


def _is_value(node: Node) -> bool:
    """Whether repeating a node's call gives the same value."""
    if not isinstance(node.target, OpOverload):
        return not isinstance(node.target, HigherOrderOperator)
    if torch.Tag.nondeterministic_seeded in node.target.tags or schema_of(node.target).name.startswith("aten::empty"):
        return False
    # Each read of a data-dependent number has a symbol of its own.
    return not isinstance(node.meta.get("val"), _SYMBOLIC)


def _meaning(node: Node) -> Hashable | None:
    """A key that is equal for nodes that compute the same; None where that cannot be decided."""
    leaves, form = tree_flatten((node.args, node.kwargs))
    if any(isinstance(leaf, _SYMBOLIC) for leaf in leaves):
        return None
    return node.target, str(form), stream_of(node), tuple(map(_leaf, leaves))


def _leaf(value: Any) -> Hashable:
    # Python's == does not do: 1 == 1.0 == True, 0.0 == -0.0, and a NaN differs from itself.
    return value if isinstance(value, Node) else (type(value), repr(value))
