"""Finds what passes from a forward graph to its backward graph alone: results of the one, donated arguments of the
other."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from cuesta.torch_private.fake_tensors import forward_metadata
from cuesta.torch_private.tensors import memory_of


def donated_arguments(gm: GraphModule) -> list[int]:
    """Positions of the arguments whose memory is free after their last use, as AOTAutograd reports for the graph that
    is being compiled.

    AOTAutograd donates where the backward graph runs once (no retain_graph), and refuses later calls that would keep
    the saved tensors. Tensors that share memory with another argument are left out, because their ownership would be
    ambiguous.
    """
    metadata = forward_metadata()
    positions = (metadata.bw_donated_idxs if metadata is not None else None) or []
    storages = [memory_of(n.meta.get("val")) for n in gm.graph.nodes if n.op == "placeholder"]
    return [i for i in positions if storages[i] is not None and storages.count(storages[i]) == 1]


def saved_outputs(gm: GraphModule) -> tuple[list[int], list[int]]:
    """Positions of the outputs of the forward graph that is being compiled which only autograd gets: those that the
    graph computes, and those that are its arguments."""
    metadata = forward_metadata()
    results: Any = gm.graph.output_node().args[0]
    if metadata is None:
        return [], []
    first = len(metadata.tokens) + metadata.num_forward
    saved = {i: node for i, node in enumerate(results) if i >= first and isinstance(node, Node)}
    computed = [i for i, node in saved.items() if node.op != "placeholder" and node not in results[:first]]
    return computed, [i for i, node in saved.items() if node.op == "placeholder"]


def expected_arguments(forward: GraphModule, backward: GraphModule, outputs: int) -> list[int]:
    """Predicts `donated_arguments` from the partitioner's graphs, before AOTAutograd has reported them: values that the
    forward graph computes and saves for the backward graph, behind its own `outputs` results and not among them."""
    results: Any = forward.graph.output_node().args[0]
    saved = {node.name for node in results[outputs:] if isinstance(node, Node) and node.op == "call_function"}
    saved -= {node.name for node in results[:outputs] if isinstance(node, Node)}
    arguments = [node for node in backward.graph.nodes if node.op == "placeholder"]
    storages = [memory_of(node.meta.get("val")) for node in arguments]
    others = [memory_of(node.meta.get("val")) for node in forward.graph.nodes if node.op == "placeholder"]
    return [
        i
        for i, (node, storage) in enumerate(zip(arguments, storages, strict=True))
        if node.name in saved and storage is not None and storages.count(storage) == 1 and storage not in others
    ]
