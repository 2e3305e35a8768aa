"""Computes the gradients of tables that one index reads by one call, as if they were one table of more columns.

    %1 = embedding_dense_backward(%g, %i, 1000, …)           %g' = cat([%g, %h], -1)
    %2 = embedding_dense_backward(%h, %i, 1000, …)    →      %t  = embedding_dense_backward(%g', %i, 1000, …)
                                                             %1, %2 = clone(slice(%t, 1, 0, 16)), clone(slice(%t, …))

A factorisation machine has a vector and a weight for each of its features. On a GPU ATen's call sorts the index, which
takes longer than to add up the rows.
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
from cuesta.targets import Target

aten = torch.ops.aten

#: Bytes that an H200 reads or writes in a microsecond.
_BYTES = 4e6


def join_gradients_of_one_index(gm: GraphModule, target: Target | None) -> None:
    """Rewrites a graph's gradients of tables that the same index reads on a GPU, where the sorts that are spared are
    estimated to take longer than copies of rows and tables."""
    join_gradients(gm, target, "one_index", _alike, _pays, _join)


def _alike(node: Node) -> Hashable:
    """What gradients share whose tables one index reads; None for so few rows that ATen does not sort them."""
    _, index, count, padding, _ = node.args
    assert isinstance(index, Node) and isinstance(count, int) and isinstance(padding, int)
    return (index, count, padding, node.meta["val"].dtype) if rows_of(node) > MOST_UNSORTED else None


def _pays(together: Sequence[Node]) -> bool:
    """Whether the sorts of all calls but one take longer than to copy rows and tables, which are read and written."""
    tensors = [value.meta["val"] for node in together for value in (node, node.args[0])]  # type: ignore[union-attr]
    copied = sum(2 * tensor.numel() * tensor.itemsize for tensor in tensors)
    return (len(together) - 1) * sorted_time(rows_of(together[0])) > copied / _BYTES


def _join(write: NodeWriter, together: Sequence[Node]) -> None:
    """Replaces these gradients by columns of one, where the graph inserts nodes."""
    _, index, count, padding, _ = together[0].args
    ends = list(itertools.accumulate(node.meta["val"].shape[1] for node in together))
    rows = write.call(aten.cat.default, [node.args[0] for node in together], -1)
    table = write.call(GRADIENT, rows, index, count, padding, False)
    for node, begin, end in zip(together, [0, *ends], ends, strict=False):
        columns = write.call(aten.slice.Tensor, table, 1, begin, end)
        # Autograd would copy a gradient that is returned with gaps between its rows, at more cost on the host.
        node.replace_all_uses_with(write.call(aten.clone.default, columns, memory_format=torch.contiguous_format))
