"""Computes what a graph takes from tensors on the CPU, and copies it to the GPU, before the graph's program runs.

    graph(%x, %table)      %table on the CPU             graph(%x, None, %uploaded)
      %t = slice(%table, …)                       →        %y = add(%x, %uploaded)
      %u = _to_copy(%t, device=GPU)
      %y = add(%x, %u)                                   before each call: %uploaded = slice and _to_copy of %table

A model that keeps a table of positions as a plain attribute, and not as a buffer, copies it to the GPU in each call. A
program with tensors on the CPU cannot be recorded as a CUDA graph: a replay would read the CPU's memory of the first
call. The copies stay, because nothing says that the table never changes; the rest is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node

from cuesta.driver.calling import Boxed, as_boxed
from cuesta.driver.op_by_op import op_by_op
from cuesta.driver.specialise import is_symbolic
from cuesta.frontend.fx_nodes import add_argument

aten = torch.ops.aten


@dataclass(frozen=True)
class Uploads:
    """A graph on the CPU whose results are the last arguments of another graph."""

    #: positions of its arguments among the other graph's
    sources: Sequence[int]
    compute: Boxed


def take_uploads(gm: GraphModule) -> Uploads | None:
    """Takes all work on the CPU out of a graph. The results of that work become the graph's last arguments. Returns
    None, and leaves the graph as it is, where sizes are symbolic, where nothing is copied from the CPU's arguments to a
    GPU, or where something else than such copies needs tensors on the CPU."""
    if is_symbolic(gm):
        return None
    copies = [node for node in gm.graph.nodes if _is_upload(node)]
    needed = _needed_for(copies)
    arguments = [node for node in needed if node.op == "placeholder"]
    if not arguments or not all(node in needed for node in gm.graph.nodes if _depends_on_cpu(node)):
        return None
    before = _graph_of(needed, copies)
    for number, node in enumerate(copies):
        node.replace_all_uses_with(add_argument(gm.graph, f"uploaded_{number}", node.meta["val"]))
    for node in reversed([node for node in needed if node.op != "placeholder"]):
        gm.graph.erase_node(node)
    for node in arguments:
        node.meta["val"] = None  # a program with an argument on the CPU is not recorded either
    gm.recompile()
    positions = {node: i for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    return Uploads([positions[node] for node in arguments], op_by_op(before))


def bind(uploads: Uploads, boxed: Boxed) -> Boxed:
    """Wraps the call of a graph whose last arguments are uploads, so that callers pass what these are computed from."""

    @as_boxed
    def call(args: list[Any]) -> list[Any]:
        sources = [args[i] for i in uploads.sources]
        for i in uploads.sources:
            args[i] = None
        args += uploads.compute(sources)
        return boxed(args)

    return call


def _is_upload(node: Node) -> bool:
    """Whether a node copies a tensor from the CPU to another device."""
    return node.target is aten._to_copy.default and not _is_on_cpu(node) and _is_on_cpu(node.all_input_nodes[0])


def _is_on_cpu(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, Tensor) and value.device.type == "cpu"


def _depends_on_cpu(node: Node) -> bool:
    """Whether a node is or reads a tensor on the CPU of one dim or more; a kernel takes single numbers as arguments."""
    return any(_is_on_cpu(each) and each.meta["val"].dim() > 0 for each in (node, *node.all_input_nodes))


def _needed_for(copies: Sequence[Node]) -> list[Node]:
    """Copies from the CPU and all that they are computed from, operands first."""
    found, pending = dict.fromkeys(copies), list(copies)
    while pending:
        operands = [operand for operand in pending.pop().all_input_nodes if operand not in found]
        found.update(dict.fromkeys(operands))
        pending += operands
    return sorted(found)


def _graph_of(nodes: Sequence[Node], results: Sequence[Node]) -> GraphModule:
    """A graph of its own that computes `results` from the placeholders among `nodes`."""
    graph, made = Graph(), dict[Node, Node]()
    for node in nodes:
        made[node] = graph.node_copy(node, made.__getitem__)
    graph.output([made[node] for node in results])
    return GraphModule({}, graph)
