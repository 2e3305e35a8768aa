"""Computes the gradients of many small tables by one call, as if they were parts of one table.

    %1 = embedding_dense_backward(%g, %i, 100, …)        %g' = cat([%g, %h])
    %2 = embedding_dense_backward(%h, %j, 50, …)    →    %i' = cat([%i, %j + 100])
                                                         %t  = embedding_dense_backward(%g', %i', 150, …)
                                                         %1, %2 = slice(%t, 0, 0, 100), slice(%t, 0, 100, 150)

A recommender has a table for each of its features. On a GPU ATen's call for few rows runs on few multiprocessors, one
for each 32 columns, and walks over the rows one after the other; its call for many rows sorts them, and works on all
multiprocessors. Both add the rows of a position in a fixed order.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_for_gpu
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.rules import sizes_of
from cuesta.targets import Target

aten = torch.ops.aten

GRADIENT = aten.embedding_dense_backward.default
#: ATen sorts more rows than this.
MOST_UNSORTED = 3072
#: Microseconds on an H200: of a row that an unsorted call walks over, of a sorted call's dozen of launches, and of a
#: row in it. 26 tables of 64 columns, 2,048 rows for each, take 1,858 by a call for each, and 183 by one for all.
_UNSORTED_ROW, _SORTED, _SORTED_ROW = 0.025, 90.0, 0.002


def join_table_gradients(gm: GraphModule, target: Target | None) -> None:
    """Rewrites a graph's gradients of tables of equal width on a GPU, where one call is estimated to take less time."""
    places = {node: i for i, node in enumerate(gm.graph.nodes)}
    groups: dict[object, list[Node]] = {}
    for node in gm.graph.find_nodes(op="call_function", target=GRADIENT):
        if is_for_gpu(node, target) and has_known_sizes(node) and node.args[3] == -1:
            rows, index = (operand.meta["val"] for operand in node.all_input_nodes)
            groups.setdefault((rows.shape[-1], rows.dtype, index.dtype, rows.device), []).append(node)
    if not groups:
        return
    write = NodeWriter(gm, "joined_tables")
    for group in groups.values():
        last, together = read_later(group, places)
        if last in together and _pays(together):
            with gm.graph.inserting_before(last.next):
                _join(write, together)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def read_later(group: Sequence[Node], places: Mapping[Node, int]) -> tuple[Node, list[Node]]:
    """The last of some gradients, and those that nothing reads before it: one call there can compute these."""
    last = max(group, key=places.__getitem__)
    return last, [node for node in group if all(places[user] > places[last] for user in node.users)]


def has_known_sizes(node: Node) -> bool:
    """Whether a gradient has known sizes, and gives rows no weights by frequency."""
    metas: list[torch.Tensor] = [node.meta["val"], *(operand.meta["val"] for operand in node.all_input_nodes)]
    return not node.args[4] and all(isinstance(size, int) for meta in metas for size in meta.shape)


def rows_of(node: Node) -> int:
    """How many rows a gradient adds up."""
    return int(node.args[1].meta["val"].numel())  # type: ignore[union-attr]


def sorted_time(rows: int) -> float:
    """Microseconds of a call that sorts its rows."""
    return _SORTED + _SORTED_ROW * rows


def _pays(together: Sequence[Node]) -> bool:
    """Whether one call for all gradients takes at most two thirds of the time of a call for each."""
    counts = [rows_of(node) for node in together]
    apart = sum(_UNSORTED_ROW * n if n <= MOST_UNSORTED else sorted_time(n) for n in counts)
    return sum(counts) > MOST_UNSORTED and apart > 1.5 * sorted_time(sum(counts))


def _join(write: NodeWriter, together: Sequence[Node]) -> None:
    """Replaces these gradients by parts of one, where the graph inserts nodes."""
    counts = [int(sizes_of(node.meta["val"])[0]) for node in together]
    begins = [0, *itertools.accumulate(counts)]
    rows, indices = [], []
    for node, begin in zip(together, begins, strict=False):
        given, index = node.args[:2]
        width = node.meta["val"].shape[1]
        rows.append(write.call(aten.reshape.default, given, [rows_of(node), width]))
        flat = write.call(aten.reshape.default, index, [rows_of(node)])
        indices.append(write.call(aten.add.Tensor, flat, begin))
    table = write.call(
        GRADIENT, write.call(aten.cat.default, rows), write.call(aten.cat.default, indices), begins[-1], -1, False
    )
    for node, begin, count in zip(together, begins, counts, strict=False):
        node.replace_all_uses_with(write.call(aten.slice.Tensor, table, 0, begin, begin + count))
