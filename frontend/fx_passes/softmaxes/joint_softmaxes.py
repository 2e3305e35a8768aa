"""Answers what passes ask about a softmax in a joint graph: who reads its result, and in which dims it is computed."""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_by_element, lies_in_operands_memory
from cuesta.frontend.fx_passes.node_writer import NodeWriter

aten = torch.ops.aten
_GRADIENT = aten._softmax_backward_data.default
_RESHAPES = (aten.view.default, aten._unsafe_view.default)


def gradients_and_others(softmax: Node) -> tuple[list[Node], list[Node]]:
    """The gradients that read a softmax's result as such, and its other readers."""
    gradients = [user for user in softmax.users if user.target is _GRADIENT and user.args[1] is softmax]
    return gradients, [user for user in softmax.users if user not in gradients]


def depends_on_tangents(gm: GraphModule) -> set[Node]:
    """The nodes of a joint graph that only its backward part can compute."""
    found = set[Node]()
    for node in gm.graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or any(operand in found for operand in node.all_input_nodes):
            found.add(node)
    return found


def has_known_sizes(value: object) -> bool:
    return isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape)


def is_computed(node: Node) -> bool:
    """Whether a node's result is computed where it is read: an elementwise op, or a view."""
    return is_by_element(node) or lies_in_operands_memory(node)


def is_narrowed(node: Node, width: int, backward: set[Node]) -> bool:
    """Whether a reader of a value whose elements take `width` bytes is in the forward part of a joint graph and leads
    to narrower values alone, so that nothing reads the wide value from memory."""
    passes_on = is_computed(node) or node.target in (aten.native_dropout.default, operator.getitem)
    if node in backward or not passes_on:
        return False
    value = node.meta["val"]
    if isinstance(value, torch.Tensor) and value.itemsize < width:
        return True
    return all(is_narrowed(user, width, backward) for user in node.users)


def in_dims_of_scores(softmax: Node, gradients: list[Node]) -> tuple[Node, int]:
    """A softmax's operand and dim, in the dims in which elementwise ops compute the operand, if views that follow them
    leave the last dim as it is, the softmax runs along it, and what its gradients read has those dims as a view."""
    x, dim, _ = softmax.args
    assert isinstance(x, Node) and isinstance(dim, int)
    if not all(gradient.all_input_nodes[0].meta["val"].is_contiguous() for gradient in gradients):
        return x, dim
    rank, source = x.meta["val"].dim(), x
    while source.target in _RESHAPES and dim % rank == rank - 1:
        operand = source.args[0]
        assert isinstance(operand, Node)
        if operand.meta["val"].shape[-1:] != x.meta["val"].shape[-1:]:
            break
        source = operand
    return (source, -1) if source is not x and is_by_element(source) else (x, dim)


def rewrite_gradient(writer: NodeWriter, gradient: Node, anew: Node, dim: object, sizes: list[int]) -> None:
    """Lets a softmax's gradient read the result `anew`, in the dims `sizes`."""
    upstream, *_, dtype = gradient.args
    with gradient.graph.inserting_before(gradient):
        upstream = writer.call(aten.view.default, upstream, sizes)
        found = writer.call(_GRADIENT, upstream, anew, dim, dtype)
        found = writer.call(aten.view.default, found, list(gradient.meta["val"].shape))
    gradient.replace_all_uses_with(found)
    gradient.graph.erase_node(gradient)
