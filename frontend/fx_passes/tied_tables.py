"""Adds the rows of an embedding's gradient to its table's other gradient, without a separate table of zeros.

    %1 = mm(…)                                         %1 = mm(…)
    %2 = embedding_dense_backward(%g, %i, …)    →      %2 = _unsafe_index_put(%1, [%i], %g, accumulate=True)
    %3 = add(%1, %2)

A language model's head often shares the embedding's weights. Of two tables of gradients, each as large as the weights,
one is left, and only the rows that were read are written again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from cuesta.frontend.rules import sizes_of

aten = torch.ops.aten
#: Types wide enough to add rows one by one to an already large sum.
_DTYPES = (torch.float32, torch.float64)


def add_rows_to_tables(backward: GraphModule) -> None:
    """Rewrites a backward graph. On a GPU rows are then added in no fixed order, so it stays as it is where torch is
    asked for deterministic algorithms."""
    graph = backward.graph
    found = list(_sums(graph))
    for total, gradient in found:
        table = _other(total, gradient)
        rows, index, _, padding, _ = gradient.args
        assert isinstance(rows, Node) and isinstance(index, Node) and isinstance(padding, int)
        with graph.inserting_before(total):
            if padding >= 0:
                rows = _without(graph, rows, index, padding)
            call: Any = graph.call_function(aten._unsafe_index_put.default, (table, [index], rows, True))
        call.meta = {**total.meta}
        total.replace_all_uses_with(call)
        graph.erase_node(total)
        graph.erase_node(gradient)
    if found:
        graph.lint()
        backward.recompile()


def _sums(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Pairs (sum, gradient): the sum of a table and an embedding's gradient that nothing else reads. Each sum once."""
    taken: set[Node] = set()
    for gradient in graph.find_nodes(op="call_function", target=aten.embedding_dense_backward.default):
        by_frequency = gradient.args[4]
        if by_frequency or len(gradient.users) != 1:
            continue
        (total,) = gradient.users
        if total.target is not aten.add.Tensor or total.kwargs or total in taken or len(total.all_input_nodes) != 2:
            continue
        if all(_is_like(n.meta.get("val"), total.meta["val"]) for n in total.all_input_nodes):
            taken.add(total)
            yield total, gradient


def _other(total: Node, gradient: Node) -> Node:
    (table,) = (node for node in total.all_input_nodes if node is not gradient)
    return table


def _is_like(value: Any, total: torch.Tensor) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and sizes_of(value) == sizes_of(total)
        and value.dtype == total.dtype
        and value.dtype in _DTYPES
        and (value.device.type == "cpu" or not torch.are_deterministic_algorithms_enabled())
    )


def _without(graph: Graph, rows: Node, index: Node, padding: int) -> Node:
    """`rows` with zeros in the rows of the padding index."""
    value, at = rows.meta["val"], index.meta["val"]
    steps: list[tuple[Any, tuple[Any, ...], Any]] = [
        (aten.eq.Scalar, (index, padding), at == padding),
        (aten.unsqueeze.default, (None, -1), (at == padding).unsqueeze(-1)),
        (aten.masked_fill.Scalar, (rows, None, 0), value.clone()),
    ]
    made = index
    for target, arguments, meta in steps:
        made = graph.call_function(target, tuple(made if a is None else a for a in arguments))
        made.meta["val"] = meta
    return made
