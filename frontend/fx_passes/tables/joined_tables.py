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
from collections.abc import Hashable, Sequence

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.fx_passes.tables.joined_gradients import (
    GRADIENT,
    MOST_UNSORTED,
    join_gradients,
    rows_of,
    sorted_time,
)
from cuesta.frontend.rules import sizes_of
from cuesta.targets import Target

aten = torch.ops.aten

#: Microseconds on an H200 of a row that an unsorted call walks over. 26 tables of 64 columns, 2,048 rows for each, take
#: 1,858 by a call for each, and 183 by one for all.
_UNSORTED_ROW = 0.025


def join_table_gradients(gm: GraphModule, target: Target | None) -> None:
    """Rewrites a graph's gradients of tables of equal width on a GPU, where one call is estimated to take less time."""
    join_gradients(gm, target, "joined_tables", _alike, _pays, _join)


def _alike(node: Node) -> Hashable:
    """What gradients of tables of equal width share; None for one that leaves out a row of padding."""
    rows, index = (operand.meta["val"] for operand in node.all_input_nodes)
    return (rows.shape[-1], rows.dtype, index.dtype, rows.device) if node.args[3] == -1 else None


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
