"""Reads parts of a saved concatenation where the backward graph computes them anew from other saved values.

    forward                            backward
    %1 = relu(%0)                      threshold_backward(%g, relu(%0))
    %2 = cat(%1, %a)           →       threshold_backward(%g, %2[…])
    saves %0, %2                       the forward graph saves %2 alone

torch's partitioner saves a concatenation for the convolution that reads it, and a convolution's result for the gradient
of the activation between them: it does not know that the concatenation holds the activation's result.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor
from torch.fx import Node

from cuesta.frontend.fx_nodes import keep_results, memory_root
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep
from cuesta.frontend.fx_passes.saved_concatenations import (
    Part,
    aten,
    dim_of,
    is_read_in_place,
    leaves_of,
    part_of,
    slice_of,
)


def read_parts(step: TrainingStep) -> None:
    """Rewrites the two graphs in place where a value that the forward graph computes need not be saved any more."""
    results, outputs, arguments = step.results, step.outputs, step.arguments
    returned = {memory_root(value) for value in results[:outputs] if isinstance(value, Node)}
    spared = {
        value.name: value
        for value in results[outputs:]
        if isinstance(value, Node) and isinstance(value.meta.get("val"), Tensor) and _is_own(value, returned)
    }
    gone = set[Node]()
    for again, part in _computed_parts(step):
        nodes = _needed_only_for(again)
        dropped = [spared[node.name] for node in nodes if node.op == "placeholder" and node.name in spared]
        if not dropped:
            continue
        again.replace_all_uses_with(slice_of(arguments[part.whole.name], part))
        for node in nodes:
            if node.op != "placeholder" or node.name in spared:
                step.backward.graph.erase_node(node)
        gone.update(dropped)
    if gone:
        keep_results(step.forward.graph, [i for i, value in enumerate(results) if i < outputs or value not in gone])
        step.recompile()


def _is_own(value: Node, returned: set[Node]) -> bool:
    """Whether only the backward graph keeps a value in memory."""
    root = memory_root(value)
    return root.op == "call_function" and root not in returned


def _computed_parts(step: TrainingStep) -> Iterator[tuple[Node, Part]]:
    """Each node of the backward graph that computes a part of a saved concatenation and is read where that may lie."""
    computed = {node.name: node for node in step.backward.graph.nodes if node.op == "call_function"}
    for whole in step.results[step.outputs :]:
        if not isinstance(whole, Node) or whole.target is not aten.cat.default or whole.name not in step.arguments:
            continue
        leaves, dim = leaves_of(whole), dim_of(whole)
        for position, leaf in enumerate(leaves):
            again = computed.get(leaf.name)
            if again is None or again.target is not leaf.target or not is_read_in_place(again):
                continue
            part = part_of(leaf, whole, dim, leaves[:position])
            if part is not None:
                del computed[leaf.name]
                yield again, part


def _needed_only_for(node: Node) -> list[Node]:
    """A node and what nothing else reads than its computation, users before operands."""
    found, pending = {node: None}, node.all_input_nodes
    while pending:
        operand = pending.pop()
        if operand not in found and all(user in found for user in operand.users):
            found[operand] = None
            pending += operand.all_input_nodes
    return sorted(found, reverse=True)
