"""Finds gradients of embeddings' tables that one call on a GPU may compute, and estimates how long a call takes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_for_gpu
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.targets import Target

GRADIENT = torch.ops.aten.embedding_dense_backward.default
#: ATen sorts more rows than this.
MOST_UNSORTED = 3072
#: Microseconds on an H200: of a sorted call's dozen of launches, and of a row in it.
_SORTED, _SORTED_ROW = 90.0, 0.002


def join_gradients(
    gm: GraphModule,
    target: Target | None,
    name: str,
    alike: Callable[[Node], Hashable],
    pays: Callable[[Sequence[Node]], bool],
    join: Callable[[NodeWriter, Sequence[Node]], None],
) -> None:
    """Rewrites those gradients of a graph for a GPU that are equal by `alike`, where `pays` holds of them together.
    Gradients for which `alike` gives None stay. `join` replaces them, where the graph inserts nodes; `name` is that of
    its nodes."""
    places = {node: i for i, node in enumerate(gm.graph.nodes)}
    groups: dict[Hashable, list[Node]] = {}
    for node in gm.graph.find_nodes(op="call_function", target=GRADIENT):
        key = alike(node) if is_for_gpu(node, target) and _is_plain(node) else None
        if key is not None:
            groups.setdefault(key, []).append(node)
    if not groups:
        return
    write = NodeWriter(gm, name)
    for group in groups.values():
        last = max(group, key=places.__getitem__)
        together = [node for node in group if all(places[user] > places[last] for user in node.users)]
        if last in together and pays(together):
            with gm.graph.inserting_before(last.next):
                join(write, together)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _is_plain(node: Node) -> bool:
    """Whether a gradient adds up a known number of rows, without weights by frequency."""
    metas: list[torch.Tensor] = [node.meta["val"], *(operand.meta["val"] for operand in node.all_input_nodes)]
    return not node.args[4] and all(isinstance(size, int) for meta in metas for size in meta.shape)


def rows_of(node: Node) -> int:
    """How many rows a gradient adds up."""
    return int(node.args[1].meta["val"].numel())  # type: ignore[union-attr]


def sorted_time(rows: int) -> float:
    """Microseconds of a call that sorts its rows."""
    return _SORTED + _SORTED_ROW * rows
