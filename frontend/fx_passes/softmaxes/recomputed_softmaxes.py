"""Lets gradients of softmax compute its wide result anew, from narrow scores and two numbers of each row.

    forward:   %x = _to_copy(%scores, f32)               forward:   %m = amax(%x), %f = 1 / sum(exp(%x - %m))
               %y = _softmax(%x)                                    %y = exp(%x - %m) * %f
               %p = _to_copy(%y, bf16)              →               %p = _to_copy(%y, bf16)
    backward:  _softmax_backward_data(%g, %y)            backward:  _softmax_backward_data(%g, exp(%x - %m) * %f)

Attention that a model spells out is such a softmax under autocast: a product writes scores in bf16, the softmax
computes in f32, and the next product reads bf16. torch's partitioner would save %y, which nothing else reads: the
forward graph would write four bytes of each score beside the two of %p, and the backward graph read them. Now the
partitioner saves the scores, which are in memory anyway.

Rows are normalised in the dims in which the scores are computed: batch and heads may be one dim in the softmax, while
the mask differs along one of them only. The masked scores would be written in f32 for the softmax to read.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_nodes import is_by_element, is_for_gpu, lies_in_operands_memory
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.targets import Target

aten = torch.ops.aten
_GRADIENT = aten._softmax_backward_data.default
_RESHAPES = (aten.view.default, aten._unsafe_view.default)


def recompute_softmaxes(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites softmaxes in a joint graph where that saves fewer bytes for their gradients. A CPU takes longer to
    compute exponentials than to read them. Without a target, the device of each value decides. Where a checkpoint
    decides what is saved, nothing changes."""
    softmaxes = [
        node
        for node in gm.graph.find_nodes(op="call_function", target=aten._softmax.default)
        if is_for_gpu(node, target) and "recompute" not in node.meta
    ]
    if not softmaxes:
        return
    backward = _depends_on_tangents(gm)
    forward = _needed_forward(gm, backward)
    writer = NodeWriter(gm, "rows")
    for node in softmaxes:
        gradients = [user for user in node.users if user.target is _GRADIENT and user.args[1] is node]
        others = [user for user in node.users if user not in gradients]
        width, cone = node.meta["val"].itemsize, _cone(node)
        if cone is not None and gradients and all(_is_narrowed(user, width, backward) for user in others):
            _rewrite(writer, node, _copies(cone, forward), gradients)
            gm.graph.erase_node(node)


def _depends_on_tangents(gm: GraphModule) -> set[Node]:
    """The nodes of a joint graph that only its backward part can compute."""
    found = set[Node]()
    for node in gm.graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or any(operand in found for operand in node.all_input_nodes):
            found.add(node)
    return found


def _needed_forward(gm: GraphModule, backward: set[Node]) -> set[Node]:
    """The nodes of a joint graph that its forward results are computed from."""
    found = {node for node in gm.graph.output_node().all_input_nodes if node not in backward}
    for node in reversed(gm.graph.nodes):
        if node in found:
            found.update(node.all_input_nodes)
    return found


def _copies(cone: list[Node], forward: set[Node]) -> dict[Node, Node]:
    """A copy of each node of a cone, which the backward part reads in the node's place: the partitioner would save a
    value that the forward graph reads too, such as scores with a mask that all layers share."""
    copies = dict[Node, Node]()
    for node in cone:
        readers = [user for user in node.users if user not in forward and user.op != "output"]
        with node.graph.inserting_after(node):
            copies[node] = node.graph.node_copy(node, lambda operand: copies.get(operand, operand))
        copies[node].meta.pop("recompute", None)
        for reader in readers:
            reader.replace_input_with(node, copies[node])
    return copies


def _cone(softmax: Node) -> list[Node] | None:
    """The nodes that compute a softmax's operand element by element, operands first; None if what they read, with two
    numbers of each row, takes as many bytes as the softmax's result, or if a size is symbolic."""
    y, dim = softmax.meta["val"], softmax.args[1]
    if y.dim() == 0 or not _has_known_sizes(y):
        return None
    assert isinstance(dim, int)
    found, leaves = set[Node](), set[Node]()
    pending = list(softmax.all_input_nodes)
    while pending:
        node = pending.pop()
        if not _has_known_sizes(node.meta.get("val")):
            return None
        if _is_computed(node) and node.meta["val"].numel() == y.numel():
            pending += [operand for operand in node.all_input_nodes if operand not in found]
            found.add(node)
        else:
            leaves.add(node)
    numbers = 2 * y.itemsize * y.numel() // max(y.shape[dim], 1)
    if sum(leaf.meta["val"].nbytes for leaf in leaves) + numbers >= y.nbytes:
        return None
    return [node for node in softmax.graph.nodes if node in found]


def _has_known_sizes(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape)


def _is_computed(node: Node) -> bool:
    """Whether a node's result is computed where it is read: an elementwise op, or a view."""
    return is_by_element(node) or lies_in_operands_memory(node)


def _is_narrowed(node: Node, width: int, backward: set[Node]) -> bool:
    """Whether a reader of a value whose elements take `width` bytes is in the forward part of a joint graph and leads
    to narrower values alone, so that nothing reads the wide value from memory."""
    passes_on = _is_computed(node) or node.target in (aten.native_dropout.default, operator.getitem)
    if node in backward or not passes_on:
        return False
    value = node.meta["val"]
    if isinstance(value, torch.Tensor) and value.itemsize < width:
        return True
    return all(_is_narrowed(user, width, backward) for user in node.users)


def _rewrite(writer: NodeWriter, node: Node, copies: dict[Node, Node], gradients: list[Node]) -> None:
    """Computes a softmax as decompose does, and for its gradients once more from copies of what makes its operand."""
    whole = all(gradient.all_input_nodes[0].meta["val"].is_contiguous() for gradient in gradients)
    x, dim, widens = node.args
    if whole:
        x, dim = _in_dims_of_scores(node)
    assert isinstance(x, Node)
    with node.graph.inserting_before(node):
        again = copies.get(x, x)
        sizes = list(x.meta["val"].shape)
        if widens:
            x, again = (writer.call(aten._to_copy.default, value, dtype=torch.float32) for value in (x, again))
        highest = writer.call(aten.amax.default, x, [dim], True)
        exponentials = writer.call(aten.exp.default, writer.call(aten.sub.Tensor, x, highest))
        total = writer.call(aten.sum.dim_IntList, exponentials, [dim], True)
        factor = writer.call(aten.reciprocal.default, total)
        result = writer.call(aten.mul.Tensor, exponentials, factor)
        result = writer.call(aten.view.default, result, list(node.meta["val"].shape))
        anew = writer.call(aten.exp.default, writer.call(aten.sub.Tensor, again, highest))
        anew = writer.call(aten.mul.Tensor, anew, factor)
    for saved in (highest, factor):
        saved.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    for gradient in gradients:
        _rewrite_gradient(writer, gradient, anew, dim, sizes)
    node.replace_all_uses_with(result)


def _in_dims_of_scores(softmax: Node) -> tuple[Node, int]:
    """A softmax's operand and dim, in the dims in which elementwise ops compute the operand, if views that follow them
    leave the last dim as it is and the softmax runs along it."""
    x, dim, _ = softmax.args
    assert isinstance(x, Node) and isinstance(dim, int)
    rank, source = x.meta["val"].dim(), x
    while source.target in _RESHAPES and dim % rank == rank - 1:
        operand = source.args[0]
        assert isinstance(operand, Node)
        if operand.meta["val"].shape[-1:] != x.meta["val"].shape[-1:]:
            break
        source = operand
    return (source, -1) if source is not x and is_by_element(source) else (x, dim)


def _rewrite_gradient(writer: NodeWriter, gradient: Node, anew: Node, dim: object, sizes: list[int]) -> None:
    """Lets a softmax's gradient read the result `anew`, in the dims `sizes`."""
    upstream, *_, dtype = gradient.args
    with gradient.graph.inserting_before(gradient):
        upstream = writer.call(aten.view.default, upstream, sizes)
        found = writer.call(_GRADIENT, upstream, anew, dim, dtype)
        found = writer.call(aten.view.default, found, list(gradient.meta["val"].shape))
    gradient.replace_all_uses_with(found)
    gradient.graph.erase_node(gradient)
