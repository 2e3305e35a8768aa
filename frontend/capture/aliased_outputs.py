"""Which results of a graph AOTAutograd makes anew as views of an argument that the graph writes.

    x[:2].add_(1); return x.t()    →    copy_(x, new); return new.t()

AOTAutograd takes sizes, strides and the offset of `new.t()`, and views x so: the offset counts from where the memory
begins that x is part of. So such a result has to lie in x itself, wherever that lies in a call; it is what x holds
after the call anyway. Where sizes are numbers, AOTAutograd repeats the views instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.schemas import OutputType
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import memory_root
from cuesta.frontend.graph_key import ALIASES


def note_aliased_outputs(gm: GraphModule) -> None:
    """Notes, at the output of the graph that AOTAutograd has compiled now, what it says of the results."""
    context = torch._guards.TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    placeholders = gm.graph.find_nodes(op="placeholder")
    if metadata is None or len(metadata.input_info) != len(placeholders):
        return
    first = len(metadata.mutated_inp_runtime_indices)
    gm.graph.output_node().meta[ALIASES] = {
        first + i: info.base_idx
        for i, info in enumerate(metadata.output_info)
        if info.output_type is OutputType.alias_of_input
        and info.base_idx is not None
        and metadata.input_info[info.base_idx].mutates_data
    }


def aliases_of(output: Node) -> Mapping[int, int]:
    """What was noted at the output of a graph, or of the graph that it is a copy of."""
    found: Mapping[int, int] = output.meta.get(ALIASES, {})
    return found


def keep_aliases(output: Node, of: Node) -> None:
    """Notes at the output of a copied graph what was noted at that of the graph."""
    if ALIASES in of.meta:
        output.meta[ALIASES] = of.meta[ALIASES]


def results_in_arguments(
    output: Node, results: Iterable[Node], written: Container[Node]
) -> dict[Node, tuple[Node, Node]]:
    """Result → the argument that it lies in after the call, and the node that is the argument's value then: views of
    arguments that are not `written`, and what was noted at the graph's output."""
    graph = output.graph
    placeholders = graph.find_nodes(op="placeholder")
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    new_values = {node.args[0]: memory_root(node.args[1]) for node in copies if isinstance(node.args[1], Node)}
    given: Sequence[Any] = output.args[0]  # type: ignore[assignment]
    noted = {given[position]: placeholders[argument] for position, argument in aliases_of(output).items()}
    found = {}
    for result in results:
        root, argument = memory_root(result), noted.get(result)
        if argument is not None and new_values.get(argument) is root:
            found[result] = argument, root
        elif root.op == "placeholder" and root not in written:
            found[result] = root, root
    return found
