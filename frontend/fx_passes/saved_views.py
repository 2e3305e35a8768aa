"""What a forward graph saves as several views is saved once, as the tensor that they are views of.

    forward                            backward
    %1 = attention(…)                  uses %1, %3
    %2 = permute(%1)
    %3 = view(%2)                 →
    saves %1, %3                       saves %1; the backward graph makes %3 of it

Memory that two arguments of a backward graph share is not its own to free (`donation`): an attention's result, which
its gradient reads as it is and a product's as rows, would be held to the end of the step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import keep_results, lies_in_operands_memory, memory_root


def save_views_once(forward: GraphModule, backward: GraphModule, outputs: int) -> None:
    """Has the two graphs of a training step hand one tensor over where they would hand over several views of it.

    The first `outputs` results of the forward graph are not saved; its other results are arguments of the backward
    graph, of the same names.
    """
    results: Sequence[Any] = forward.graph.output_node().args[0]  # type: ignore[assignment]
    arguments = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    returned = {memory_root(value) for value in results[:outputs] if isinstance(value, Node)}
    views: dict[Node, list[int]] = {}
    for position, value in enumerate(results[outputs:], outputs):
        if isinstance(value, Node) and isinstance(value.meta.get("val"), Tensor) and value.name in arguments:
            views.setdefault(memory_root(value), []).append(position)
    groups = {root: [results[i] for i in positions] for root, positions in views.items() if len(positions) > 1}
    handed = {k: v for k, v in groups.items() if k not in returned and _can_be_handed_over(k, v)}
    if not handed:
        return
    # All of them before any copy of a call, which could take the name of one.
    made = {root: _argument(backward, root, saved[0], arguments) for root, saved in handed.items()}
    changed, gone = [*results], set()
    for root, saved in handed.items():
        for value in saved:
            if value is not root:
                _make_view(backward, value, root, made[root], arguments[value.name])
        first, *others = views[root]
        changed[first] = root
        gone.update(others)
    forward.graph.output_node().args = (tuple(changed),)
    keep_results(forward.graph, [i for i in range(len(results)) if i not in gone])
    for module in (forward, backward):
        module.graph.lint()
        module.recompile()


def _can_be_handed_over(root: Node, saved: Sequence[Node]) -> bool:
    """Whether `root` is what the forward graph computes, no larger than the views of it that are saved, and these are
    made of it by numbers that the backward graph has: those in the calls."""
    whole = root.meta.get("val")
    if root.op != "call_function" or not isinstance(whole, Tensor):
        return False
    # What torch's autograd keeps elsewhere than other saved tensors comes after them.
    if any(node.meta.get("saved_tensor_with_no_vc_check", False) for node in (root, *saved)):
        return False
    if any(type(n) is not int for node in (root, *saved) for n in node.meta["val"].shape):
        return False
    if sum(node.meta["val"].numel() for node in saved) < whole.numel():
        return False
    return all(len(step.all_input_nodes) == 1 for node in saved for step in _steps(node, root))


def _steps(view: Node, root: Node) -> list[Node]:
    """The calls that make `view` of `root`, first to last."""
    found: list[Node] = []
    while view is not root:
        assert lies_in_operands_memory(view)
        found.append(view)
        view = view.all_input_nodes[0]
    return found[::-1]


def _argument(backward: GraphModule, root: Node, saved: Node, arguments: Mapping[str, Node]) -> Node:
    """An argument of the backward graph for `root`, in the place of that for `saved`, the first of its views.

    `arguments` are those of the partitioner's, by name: what has the root's name otherwise is a call of the backward
    graph's own, which computes it again.
    """
    first, own = arguments[saved.name], arguments.get(root.name)
    if own is not None:  # saved itself, perhaps after a view of it
        if own is not first:
            first.prepend(own)
        return own
    with backward.graph.inserting_before(first):
        made = backward.graph.placeholder(root.name)
    made.meta = {**root.meta, **{k: v for k, v in first.meta.items() if k == "desc"}}
    return made


def _make_view(backward: GraphModule, view: Node, root: Node, whole: Node, argument: Node) -> None:
    """Puts the calls that make `view` of `root` in the place of an argument, with `whole` for `root`."""
    made = {root: whole}
    with backward.graph.inserting_before(next(n for n in backward.graph.nodes if n.op != "placeholder")):
        for step in _steps(view, root):
            made[step] = backward.graph.node_copy(step, made.__getitem__)
    argument.replace_all_uses_with(made[view])
    backward.graph.erase_node(argument)
