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

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import keep_results, memory_root
from cuesta.frontend.python_steps import is_view


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
    changed, gone = [*results], set()
    for root, positions in views.items():
        saved = [results[i] for i in positions]
        if len(saved) < 2 or root in returned or not _can_be_handed_over(root, saved):
            continue
        made = _argument(backward, root, arguments[saved[0].name])
        for value in saved:
            if value is not root:
                _make_view(backward, value, root, made, arguments[value.name])
        first, *others = positions
        changed[first] = root
        gone.update(others)
    if not gone:
        return
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
        assert is_view(view)
        found.append(view)
        view = view.all_input_nodes[0]
    return found[::-1]


def _argument(backward: GraphModule, root: Node, first: Node) -> Node:
    """An argument of the backward graph for `root`, in the place of `first`, the first saved view's."""
    if first.name == root.name:
        return first
    own = next((n for n in backward.graph.find_nodes(op="placeholder") if n.name == root.name), None)
    if own is not None:  # saved itself, after a view of it
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
