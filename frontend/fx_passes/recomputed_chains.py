"""Computes saved values anew in the backward graph, element by element, from others that are saved anyway.

    forward:  %y = gelu(%x)                          →   %y = gelu(%x)
              %s = _to_copy(%y[:, 768:], f32)            %s = _to_copy(%y[:, 768:], f32)
              … returns …, %x, %s                        … returns …, %x
    backward: layer_norm_backward(%g, %s, …)         →   layer_norm_backward(%g, _to_copy(gelu(%x)[:, 768:], f32), …)

A product or an argument of the step may be saved in the value's place, where it is half as large or less: a narrow
product times a factor in f32 is f32, and a weight may be repeated for each sample.

torch's partitioner saves what a norm reads, because it takes the norm's gradient for a call that needs its operands in
memory, and the norm's result, because it takes the norm for a call. On a GPU a kernel of the backward graph computes
them faster than it would read them: a norm's result from what the norm reads and its statistics, which its gradient
reads as well.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.dialects.cuesta.contraction import is_small_product
from cuesta.frontend.fx_nodes import is_by_element, is_for_gpu, keep_results, lies_in_operands_memory, packet_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep, argument_for
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.targets import Target

aten = torch.ops.aten

#: The most ops of a value's size, views aside, that compute it anew.
_MOST_OPS = 4
#: How much more may be read than the value has bytes: its factors, such as the slopes of an activation.
_MOST_READ = 9 / 8
#: A factor that the backward graph computes in any case has at most one element for so many of the value's.
_FEW = 16
#: Products, whose result is in memory in any case.
_PRODUCTS = frozenset({aten.mm, aten.addmm, aten.bmm, aten.baddbmm, aten.convolution})
#: Norms whose first result is computed element by element from their second and third, the statistics.
_NORMS = frozenset({aten.native_layer_norm, aten.native_group_norm})
#: The fewest bytes of a statistic that a norm's result is computed from: those of 16-bit floats have 16 bits on a CPU.
_STATISTICS = 4
#: Ops whose kernels compute their operands.
_IN_KERNELS = frozenset(
    {
        *(aten.native_layer_norm_backward, aten.native_group_norm_backward, aten.native_batch_norm_backward),
        *(aten.sum, aten.mean, aten.var_mean, aten.amax),
    }
)


def recompute_chains(step: TrainingStep, target: Target | None = None) -> None:
    """Rewrites the two graphs in place where the value is for a GPU; None stands for the device of each value."""
    results = step.results
    arguments, needed, dropped = step.arguments, set[Node](), dict[Node, list[Node]]()
    again = _computed_again(step)
    saved = results[step.outputs :]
    for position, value in enumerate(saved, step.outputs):
        if not isinstance(value, Node) or value in needed or saved.count(value) != 1 or value.name not in arguments:
            continue
        if not _may_go(value, target) or not _is_read_in_kernels(arguments[value.name]):
            continue
        argument, elements = arguments[value.name], value.meta["val"].numel()
        factors = {x for x, own in again.items() if _FEW * own.elements <= elements and argument not in own.arguments}
        known = (arguments.keys() | factors) - {node.name for node in dropped} - {value.name}
        chain = _chain(value, known)
        leaves = {n for node in chain for n in _read_by(node)} - {*chain}
        given = [leaf for leaf in leaves if leaf.name not in known]
        if not chain or len(given) > 1 or not _is_little(leaves, value):
            continue
        dropped[value] = chain
        needed |= leaves
        for leaf in given:  # an argument of the step, such as a norm's bias, or a product takes the value's place
            results[position] = leaf
            arguments[leaf.name] = argument_for(leaf, arguments[value.name])
    if dropped:
        write = NodeWriter(step.backward, "chains")
        for value, chain in dropped.items():
            _compute_again(write, step, value, chain, again)
        step.results = results
        keep_results(step.forward.graph, [i for i, x in enumerate(results) if i < step.outputs or x not in dropped])
        step.recompile()


class _Again(NamedTuple):
    """A node of the backward graph that computes what the forward graph computes too."""

    node: Node
    elements: int
    #: The arguments that it is computed from.
    arguments: frozenset[Node]


def _computed_again(step: TrainingStep) -> dict[str, _Again]:
    """What the backward graph computes that the forward graph computes too, by name. torch's partitioner gives both the
    name of the joint graph's node."""
    ours = {node.name: node for node in step.forward.graph.nodes}
    read = {node: frozenset([node]) for name, node in step.arguments.items() if name in ours}
    found: dict[str, _Again] = {}
    for node in step.backward.graph.nodes:
        own = ours.get(node.name)
        if own is None or node.op != "call_function" or node.target is not own.target:
            continue
        is_same = str(node.args) == str(own.args) and str(node.kwargs) == str(own.kwargs)
        if is_same and all(x in read for x in node.all_input_nodes):
            read[node] = frozenset[Node]().union(*(read[x] for x in node.all_input_nodes))
            if _is_known(node):
                found[node.name] = _Again(node, int(node.meta["val"].numel()), read[node])
    return found


def _is_known(node: Node) -> bool:
    """Whether a node's result is one tensor, of known sizes."""
    meta = node.meta.get("val")
    return isinstance(meta, Tensor) and all(type(n) is int for n in meta.shape)


def _behind(nodes: Collection[Node]) -> set[Node]:
    """These nodes and all that they are computed from."""
    found, pending = set[Node](), [*nodes]
    while pending:
        at = pending.pop()
        if at not in found:
            found.add(at)
            pending += at.all_input_nodes
    return found


def _may_go(value: Node, target: Target | None) -> bool:
    """Whether a saved value is a tensor of known sizes for a GPU, and is not to be saved for another reason."""
    free = value.meta.get("recompute") is not CheckpointPolicy.MUST_SAVE
    return _is_known(value) and free and "saved_tensor_with_no_vc_check" not in value.meta and is_for_gpu(value, target)


def _chain(value: Node, known: Collection[str]) -> list[Node]:
    """The nodes of the forward graph that compute a value from `known` arguments of the backward graph, from norms'
    weights and biases that are arguments of the step, and from what may be saved instead, in order; none if others than
    a few ops on elements do."""
    found: dict[Node, None] = {}
    stored: set[Node] = set()
    pending = [value]
    while pending:
        node = pending.pop()
        if node in found or (node is not value and (node.name in known or node in stored)):
            continue
        if node.op != "call_function" or not (_is_made(node) or lies_in_operands_memory(node)):
            if not _may_be_saved(node, value):
                return []
            stored.add(node)
            continue
        found[node] = None
        if (norm := _norm_of(node)) is not None:
            stored |= {n for n in (norm.weight, norm.bias) if n is not None and n.op == "placeholder"}
        pending += _read_by(node)
        if sum(_is_work(n, value) for n in found) > _MOST_OPS:
            return []
    return [node for node in value.graph.nodes if node in found]


def _is_work(node: Node, value: Node) -> bool:
    """Whether an op takes as long as the value has elements: neither a view, nor the conversion of a factor."""
    return not lies_in_operands_memory(node) and bool(node.meta["val"].numel() >= value.meta["val"].numel())


def _may_be_saved(node: Node, value: Node) -> bool:
    """Whether a node may be saved in a value's place: an argument of the step, or a product, which are in memory in any
    case, of at most half of the value's bytes."""
    own, made = node.meta.get("val"), value.meta["val"]
    if not isinstance(own, Tensor) or not (node.op == "placeholder" or packet_of(node) in _PRODUCTS):
        return False
    return bool(2 * own.numel() * own.element_size() <= made.numel() * made.element_size())


def _is_made(node: Node) -> bool:
    """Whether a kernel makes a node's tensor element by element."""
    is_plain = is_by_element(node) or packet_of(node) is aten.clone or _norm_of(node) is not None
    return is_plain and isinstance(node.meta.get("val"), Tensor)


class _Norm(NamedTuple):
    """The operands of cuesta::normalised that give a norm's result."""

    x: Node
    mean: Node
    rstd: Node
    weight: Node | None
    bias: Node | None
    groups: int


def _norm_of(node: Node) -> _Norm | None:
    """The norm whose result a node is; None if it is none's, or if the norm's statistics are not used or too narrow."""
    if node.target is not operator.getitem or node.args[1] != 0:
        return None
    norm: Any = node.args[0]
    statistics = {user.args[1]: user for user in norm.users if user.target is operator.getitem}
    if packet_of(norm) not in _NORMS or not {1, 2} <= statistics.keys():
        return None
    mean, rstd = statistics[1], statistics[2]
    if mean.meta["val"].itemsize < _STATISTICS:
        return None
    if packet_of(norm) is aten.native_group_norm:
        x, weight, bias, *_, groups, _eps = norm.args
        return _Norm(x, mean, rstd, weight, bias, groups)
    x, _shape, weight, bias, _eps = norm.args
    return _Norm(x, mean, rstd, weight, bias, 0)


def _read_by(node: Node) -> Sequence[Node]:
    """The nodes from which a node of a chain is computed."""
    norm = _norm_of(node)
    return node.all_input_nodes if norm is None else [n for n in norm if isinstance(n, Node)]


def _is_read_in_kernels(value: Node) -> bool:
    """Whether only ops read a value, or views of it, in whose kernels it can be computed."""

    def is_fine(user: Node) -> bool:
        if lies_in_operands_memory(user):
            return _is_read_in_kernels(user)
        return _is_made(user) or packet_of(user) in _IN_KERNELS or _is_small_product(user)

    return bool(value.users) and all(map(is_fine, value.users))


def _is_small_product(node: Node) -> bool:
    """Whether a node is a product of many small matrices of known sizes, which kernels compute."""
    if packet_of(node) is not aten.bmm:
        return False
    left, right = node.all_input_nodes[0].meta["val"], node.all_input_nodes[-1].meta["val"]
    sizes = [n for n in (*left.shape, right.shape[2]) if type(n) is int]
    return len(sizes) == 4 and is_small_product(*sizes)


def _is_little(leaves: Collection[Node], value: Node) -> bool:
    """Whether not much more is read to compute a value than the value has bytes: of each leaf, no more elements than
    the value has."""
    made = value.meta["val"]
    tensors = [leaf.meta["val"] for leaf in leaves]
    read = sum(min(tensor.numel(), made.numel()) * tensor.element_size() for tensor in tensors)
    return bool(read <= _MOST_READ * made.numel() * made.element_size())


def _compute_again(
    write: NodeWriter, step: TrainingStep, value: Node, chain: list[Node], again: Mapping[str, _Again]
) -> None:
    """Replaces an argument of the backward graph by copies of the nodes that compute it, at the graph's begin. Factors
    that the copies read, which the backward graph computes (`again`), move in front of them."""
    graph, arguments = step.backward.graph, step.arguments
    made: dict[Node, Node] = {}

    def there(node: Any) -> Any:
        if node in made or not isinstance(node, Node):
            return made.get(node, node)
        return arguments[node.name] if node.name in arguments else again[node.name].node

    read = {node.name for own in chain for node in _read_by(own)} - {node.name for node in chain} - arguments.keys()
    moved = _behind([again[name].node for name in read])
    ops = [node for node in graph.nodes if node.op != "placeholder"]
    first = next(node for node in ops if node not in moved)
    for node in ops:
        if node in moved:
            first.prepend(node)
    with graph.inserting_before(first):
        for node in chain:
            norm = _norm_of(node)
            if norm is None:
                made[node] = graph.node_copy(node, there)
            else:
                made[node] = write.call(torch.ops.cuesta.normalised.default, *map(there, norm))
    arguments[value.name].replace_all_uses_with(made[value])
    graph.erase_node(arguments[value.name])
