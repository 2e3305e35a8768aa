"""Finds results of a graph that AOTAutograd replaces by views of an argument that the graph writes.

    x[:2].add_(1); return x.t()    →    copy_(x, new); return new.t()

AOTAutograd returns x viewed with the sizes, strides and storage offset of `new.t()`; the offset counts from the start
of x's storage. Such a result must therefore share x's own memory, wherever x begins in its storage in a call. Its
values are those of x after the call anyway. Where sizes are numbers, AOTAutograd repeats the views on x instead.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import memory_root
from cuesta.frontend.graph_key import ALIASES, aliases_of
from cuesta.torch_private.aot_graphs import OutputType
from cuesta.torch_private.fake_tensors import forward_metadata


def note_aliased_outputs(gm: GraphModule) -> None:
    """Notes such results of the graph that AOTAutograd has compiled now, in the meta of the graph's output node."""
    metadata = forward_metadata()
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


def keep_aliases(output: Node, of: Node) -> None:
    """Copies the note from the output node `of` to the output node of a copy of its graph."""
    output.meta[ALIASES] = aliases_of(of)


def results_in_arguments(
    output: Node, results: Iterable[Node], written: Container[Node]
) -> dict[Node, tuple[Node, Node]]:
    """Result → (the argument whose memory it shares after the call, the node whose value the argument holds then).
    Includes views of arguments that are not `written`, and the results noted at the graph's output."""
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
