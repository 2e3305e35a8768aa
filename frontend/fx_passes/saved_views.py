"""Saves several views of one tensor once, as the tensor itself.

    forward                            backward
    %1 = attention(…)                  uses %1, %3
    %2 = permute(%1)
    %3 = view(%2)                 →
    saves %1, %3                       saves %1; the backward graph makes %3 of it

A backward graph cannot free memory that two of its arguments share (`donation`). An attention's result, for example, is
read whole by the attention's gradient and as rows by a product's, and would be kept until the end of the step.
An argument of the forward graph is saved instead of its views, even of one. A recommender reads its input's columns one
by one: each would be copied for a recorded backward graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import keep_results, lies_in_operands_memory, memory_root
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep
from cuesta.frontend.python_steps import has_gaps

#: The tensor may be this many times as large as its views together, such as a product without the columns that it was
#: padded with.
_MOST = 1.02


def save_views_once(step: TrainingStep) -> None:
    """Makes the two graphs of a training step save one tensor where they would save several views of it."""
    results, outputs, arguments = step.results, step.outputs, step.arguments
    forward, backward = step.forward, step.backward
    returned = {memory_root(value) for value in results[:outputs] if isinstance(value, Node)}
    views: dict[Node, list[int]] = {}
    for position, value in enumerate(results[outputs:], outputs):
        if isinstance(value, Node) and isinstance(value.meta.get("val"), Tensor) and value.name in arguments:
            views.setdefault(memory_root(value), []).append(position)
    seen = {root: [results[i] for i in positions] for root, positions in views.items()}
    groups = {root: values for root, values in seen.items() if _is_better_whole(root, values)}
    handed = {k: v for k, v in groups.items() if k not in returned and _can_be_handed_over(k, v)}
    if not handed:
        return
    # All arguments are made before any call is copied, because a copy could take an argument's name.
    made = {root: _argument(backward, root, saved[0], arguments) for root, saved in handed.items()}
    changed, gone = [*results], set()
    for root, saved in handed.items():
        for value in saved:
            if value is not root:
                _make_view(backward, value, root, made[root], arguments[value.name])
        first, *others = views[root]
        changed[first] = root
        gone.update(others)
    step.results = changed
    keep_results(forward.graph, [i for i in range(len(results)) if i not in gone])
    step.recompile()


def _is_better_whole(root: Node, saved: Sequence[Node]) -> bool:
    """Whether a tensor should be saved instead of the views `saved`."""
    if len(saved) > 1 or has_gaps(saved[0]):
        return True
    return root.op == "placeholder" and saved[0] is not root


def _can_be_handed_over(root: Node, saved: Sequence[Node]) -> bool:
    """Whether `root` can be saved instead of the views `saved`: the forward graph computes it or gets it, it is no
    larger than the views together, and the views' calls take nothing from the forward graph but their operand."""
    whole = root.meta.get("val")
    if not isinstance(whole, Tensor) or root.op not in ("call_function", "placeholder"):
        return False
    # autograd stores such tensors apart from other saved tensors, and passes them after those.
    if any(node.meta.get("saved_tensor_with_no_vc_check", False) for node in (root, *saved)):
        return False
    if any(type(n) is not int for node in (root, *saved) for n in node.meta["val"].shape):
        return False
    if _MOST * sum(node.meta["val"].numel() for node in saved) < whole.numel():
        return False
    return all(len(step.all_input_nodes) == 1 for node in saved for step in _steps(node, root))


def _steps(view: Node, root: Node) -> list[Node]:
    """The calls that compute `view` from `root`, first to last."""
    found: list[Node] = []
    while view is not root:
        assert lies_in_operands_memory(view)
        found.append(view)
        view = view.all_input_nodes[0]
    return found[::-1]


def _argument(backward: GraphModule, root: Node, saved: Node, arguments: Mapping[str, Node]) -> Node:
    """An argument of the backward graph for `root`, at the position of the argument for `saved`, its first view.

    `arguments` are the partitioner's, by name. Another node with the root's name is a call of the backward graph that
    recomputes the root.
    """
    first, own = arguments[saved.name], arguments.get(root.name)
    if own is not None:  # the root itself is saved too, perhaps after a view of it
        if own is not first:
            first.prepend(own)
        return own
    with backward.graph.inserting_before(first):
        made = backward.graph.placeholder(root.name)
    made.meta = {**root.meta, **{k: v for k, v in first.meta.items() if k == "desc"}}
    return made


def _make_view(backward: GraphModule, view: Node, root: Node, whole: Node, argument: Node) -> None:
    """Replaces an argument by copies of the calls that compute `view` from `root`, with `whole` in place of `root`."""
    made = {root: whole}
    with backward.graph.inserting_before(next(n for n in backward.graph.nodes if n.op != "placeholder")):
        for step in _steps(view, root):
            made[step] = backward.graph.node_copy(step, made.__getitem__)
    argument.replace_all_uses_with(made[view])
    backward.graph.erase_node(argument)
