"""Saves copies of arguments that a training step writes to, so that the backward graph reads their old values."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import Graph, Node

from cuesta.frontend.fx_nodes import inserting_behind, storage_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep
from cuesta.torch_private.aot_graphs import InputMutationAOTOutput


def keep_old_values(step: TrainingStep) -> None:
    """Saves a copy, not the argument itself, of each saved argument that the forward graph or AOTAutograd's wrapper
    writes to. Torch's partitioner saves the argument, so that the backward graph reads the new values: a wrong gradient
    where autograd does not track the argument, an error where it does.

    Where the backward graph writes to the argument, it still gets the argument itself for that."""
    graph, backward = step.forward.graph, step.backward.graph
    written = {storage_of(node) for node in _written_arguments(graph)} - {None}
    if not written:
        return
    arguments, results = step.arguments, step.results
    changed = results[: step.outputs]
    for value in results[step.outputs :]:
        if not isinstance(value, Node) or storage_of(value) not in written:
            changed.append(value)
            continue
        argument = arguments[value.name]
        reads = [user for user in argument.users if not _writes(user, argument)]
        if len(reads) < len(argument.users):
            changed.append(value)
            if not reads:
                continue
            with backward.inserting_after(argument):
                old = backward.placeholder(f"{argument.name}_before")
            old.meta = dict(argument.meta)
            argument.replace_all_uses_with(old, delete_user_cb=reads.__contains__)
        with inserting_behind(value):
            copy = graph.call_function(torch.ops.aten.clone.default, (value,))
        copy.meta["val"] = value.meta["val"].clone()
        changed.append(copy)
    step.results = changed
    step.recompile()


def _written_arguments(graph: Graph) -> Iterator[Node]:
    """Arguments that a graph copies into, and those into which AOTAutograd's wrapper copies its first results."""
    arguments = [node for node in graph.nodes if node.op == "placeholder"]
    descriptions = graph.output_node().meta.get("desc", ())
    later = [d.mutated_input for d in descriptions if isinstance(d, InputMutationAOTOutput)]
    for node in arguments:
        if node.meta.get("desc") in later or any(_writes(user, node) for user in node.users):
            yield node


def _writes(user: Node, argument: Node) -> bool:
    return user.target is torch.ops.aten.copy_.default and user.args[0] is argument
