"""Equal nodes of a joint graph, merged before it is split.

torch's partitioner does it too (`torch._functorch.config.cse`), with two functions of a module that loads all of
Inductor's lowerings: more than a second of every process that trains.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from cuesta.frontend.capture.streams import stream_of
from cuesta.frontend.fx_nodes import storage_of

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def merge_equal_nodes(graph: torch.fx.Graph) -> None:
    """Of nodes that compute the same from the same, the first stays.

    All stay that draw random numbers, have no value but memory, share memory with a result of the graph (results that
    eager keeps apart stay apart), are computed on different streams, or come after a write.
    """
    results = {storage_of(node) for node in graph.output_node().all_input_nodes} - {None}
    first: dict[Hashable, torch.fx.Node] = {}
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


def _writes(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_value(node: torch.fx.Node) -> bool:
    """Whether the same call gives the same again."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return not isinstance(node.target, torch._ops.HigherOrderOperator)
    if torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.name.startswith("aten::empty"):
        return False
    # A number that the data decide has a name of its own wherever it is read.
    return not isinstance(node.meta.get("val"), _SYMBOLIC)


def _meaning(node: torch.fx.Node) -> Hashable | None:
    """Equal where two nodes compute the same; None where that cannot be told."""
    leaves, form = tree_flatten((node.args, node.kwargs))
    if any(isinstance(leaf, _SYMBOLIC) for leaf in leaves):
        return None
    return node.target, str(form), stream_of(node), tuple(map(_leaf, leaves))


def _leaf(value: Any) -> Hashable:
    # 1, 1.0 and True are equal; so are 0.0 and -0.0, where a NaN is not itself.
    return value if isinstance(value, torch.fx.Node) else (type(value), repr(value))
