"""Decides, beyond torch's partitioner, which values a backward graph recomputes and which the forward graph saves.

torch's partitioner saves results of ops that are not on its list of fusible ops. The list lacks ops that Inductor
decomposes before and cuesta keeps whole, and `detach`, through which autograd passes results to gradients:

    %y = relu(%x)       forward graph: returns %x, which others need, and %y     →   returns %x
    %d = detach(%y)     backward graph: threshold_backward(%g, %d)               →   threshold_backward(%g, relu(%x))

Values that cuesta computes in the loops of other ops are recomputed. On a CPU, values that take longer to compute than
to read stay detached, and so are saved: a loss's gradient may reuse their memory. A GPU computes all of them faster
than it reads them.

A widened value is saved narrow, and widened again. torch's partitioner would save the input of a norm that autocast
computes in f32 as f32, because it takes the norm's gradient for a call that needs its operands in memory.

Values that a gradient compares with their own extreme are saved, or the mask is. The gradient of amax is shared equally
among the elements that equal the maximum. A backward graph that recomputes the elements in another kernel may round
them differently. Then none equals the saved maximum, and 0 / 0 is NaN.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterator

import torch
from torch.fx import Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_nodes import UNTAGGED, is_for_gpu, keep_results, memory_root, packet_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep, argument_for
from cuesta.targets import Target
from cuesta.torch_private.partitioners import default_ops, with_ops

aten = torch.ops.aten

#: Ops that cuesta computes in the loops of other ops, and that torch's list lacks.
_CHEAP = frozenset({aten.hardswish, aten.amin}) | UNTAGGED

#: Ops whose results autograd passes to gradients because they take long to compute, on a CPU.
_DEAR = frozenset(
    {
        *(aten.exp, aten.expm1, aten.exp2, aten.tanh, aten.sigmoid, aten.tan, aten.pow, aten.special_ndtri),
        *(aten.sqrt, aten.rsqrt, aten.reciprocal),
    }
)

_EXTREMES = frozenset({aten.amax.default, aten.amin.default, aten.max.default, aten.min.default})


@contextlib.contextmanager
def cheap_ops_known() -> Iterator[None]:
    """A context in which torch's partitioner counts `_CHEAP` as fusible and recomputable."""
    types = default_ops()
    ours = dataclasses.replace(
        types, fusible_ops=types.fusible_ops | _CHEAP, recomputable_ops=types.recomputable_ops | _CHEAP
    )
    with with_ops(ours):
        yield


def read_undetached(graph: torch.fx.Graph, target: Target | None = None) -> None:
    """Makes users of a detached value in a joint graph read the value itself, except where it takes long to compute on
    the target; None stands for the device of each value. No gradient of a joint graph is taken any more, so that
    `detach` has no effect."""
    for node in graph.find_nodes(op="call_function", target=aten.detach.default):
        value = node.args[0]
        assert isinstance(value, Node)
        if is_for_gpu(node, target) or packet_of(memory_root(value)) not in _DEAR:
            node.replace_all_uses_with(value, delete_user_cb=lambda user: user.op != "output")
            if not node.users:
                graph.erase_node(node)


def save_compared(graph: torch.fx.Graph) -> None:
    """Marks values in a joint graph that are compared with their own extremes as values to save."""
    for node in graph.find_nodes(op="call_function", target=aten.eq.Tensor):
        values = [memory_root(value) for value in node.all_input_nodes]
        for x, extreme in itertools.permutations(values, 2):
            if extreme.target in _EXTREMES and memory_root(extreme.all_input_nodes[0]) is x:
                x.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def save_narrow(step: TrainingStep) -> None:
    """Saves what a saved value was widened from in its place; the backward graph widens it."""
    returned = {memory_root(value) for value in step.results[: step.outputs] if isinstance(value, Node)}
    nodes = {node.name: node for node in step.backward.graph.nodes}
    arguments, results, gone = step.arguments, step.results, set[int]()
    wide: list[tuple[Node, Node]] = []
    for position, value in enumerate(step.results[step.outputs :], step.outputs):
        source = _narrow_source(value)
        if source is None or memory_root(source) in returned or value.name not in arguments:
            continue
        known = nodes.get(source.name)
        if known is not None and known.op != "placeholder":
            continue  # the backward graph computes the source again, under that name
        if known is not None:
            gone.add(position)
        else:
            known = nodes[source.name] = argument_for(source, arguments[value.name])
            results[position] = source
        wide.append((value, known))
    if not wide:
        return
    for value, narrow in wide:
        _widen_again(value, arguments[value.name], narrow)
    step.results = results
    keep_results(step.forward.graph, [i for i in range(len(results)) if i not in gone])
    step.recompile()


def _narrow_source(value: object) -> Node | None:
    """What a value was widened from, if the forward graph computes it and that is all the memory to be kept."""
    if (
        not isinstance(value, Node)
        or packet_of(value) is not aten._to_copy
        or "saved_tensor_with_no_vc_check" in value.meta
    ):
        return None
    source = value.args[0]
    assert isinstance(source, Node)
    root = memory_root(source)
    wide, narrow, whole = (node.meta["val"] for node in (value, source, root))
    if root.op != "call_function" or not isinstance(whole, torch.Tensor) or wide.device != narrow.device:
        return None
    is_widened = wide.is_floating_point() and narrow.is_floating_point() and wide.itemsize > narrow.itemsize
    sizes_known = all(type(n) is int for n in (*narrow.shape, *whole.shape))
    return source if is_widened and sizes_known and whole.numel() == narrow.numel() else None


def _widen_again(value: Node, argument: Node, narrow: Node) -> None:
    """Replaces an argument of the backward graph by a copy of the call that widens it."""
    graph = argument.graph
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        argument.replace_all_uses_with(graph.node_copy(value, lambda _: narrow))
    graph.erase_node(argument)
