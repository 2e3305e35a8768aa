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

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

from cuesta.frontend.fx_nodes import is_for_gpu
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.fx_passes.softmaxes.joint_softmaxes import (
    depends_on_tangents,
    gradients_and_others,
    has_known_sizes,
    in_dims_of_scores,
    is_computed,
    is_narrowed,
    rewrite_gradient,
)
from cuesta.targets import Target

aten = torch.ops.aten


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
    backward = depends_on_tangents(gm)
    forward = _needed_forward(gm, backward)
    writer = NodeWriter(gm, "rows")
    for node in softmaxes:
        gradients, others = gradients_and_others(node)
        width, cone = node.meta["val"].itemsize, _cone(node)
        if cone is not None and gradients and all(is_narrowed(user, width, backward) for user in others):
            _rewrite(writer, node, _copies(cone, forward), gradients)
            gm.graph.erase_node(node)


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
    if y.dim() == 0 or not has_known_sizes(y):
        return None
    assert isinstance(dim, int)
    found, leaves = set[Node](), set[Node]()
    pending = list(softmax.all_input_nodes)
    while pending:
        node = pending.pop()
        if not has_known_sizes(node.meta.get("val")):
            return None
        if is_computed(node) and node.meta["val"].numel() == y.numel():
            pending += [operand for operand in node.all_input_nodes if operand not in found]
            found.add(node)
        else:
            leaves.add(node)
    numbers = 2 * _bytes(y) // max(y.shape[dim], 1)
    if sum(_bytes(leaf.meta["val"]) for leaf in leaves) + numbers >= _bytes(y):
        return None
    return [node for node in softmax.graph.nodes if node in found]


def _bytes(value: Tensor) -> int:
    """The bytes of a tensor's elements. Its own `nbytes` raises an error where strides are symbolic."""
    return value.numel() * value.itemsize


def _rewrite(writer: NodeWriter, node: Node, copies: dict[Node, Node], gradients: list[Node]) -> None:
    """Computes a softmax as decompose does, and for its gradients once more from copies of what makes its operand."""
    (x, dim), widens = in_dims_of_scores(node, gradients), node.args[2]
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
        rewrite_gradient(writer, gradient, anew, dim, sizes)
    node.replace_all_uses_with(result)
