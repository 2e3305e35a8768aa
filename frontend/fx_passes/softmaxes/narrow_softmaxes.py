"""Lets gradients of a softmax in f32 read its result in bf16, where the next product's gradient keeps that anyway.

    forward:   %y = _softmax(%x)                         forward:   %y = _softmax(%x)
               %p = _to_copy(%y, bf16)                              %p = _to_copy(%y, bf16)
    backward:  bmm(%p, …)                           →    backward:  bmm(%p, …)
               _softmax_backward_data(%g, %y)                       %z = _to_copy(%p, f32)
                                                                    _softmax_backward_data(%g, %z * (1 / sum(%z)))

Attention that a model spells out saves each probability twice under autocast: four bytes for the softmax's gradient,
two for the product's. The wide ones need not leave the forward graph's kernel.

A gradient must not change when a number is added to a whole row of %g. Rounded probabilities do not add up to one, and
so they are divided by their sum. What is left is an error of the size of the rounding of %g itself, which a product
wrote in bf16.

A type with fewer exponents than f32 would lose small probabilities, whose gradients a scaled loss makes large.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_for_gpu, lies_in_operands_memory, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.fx_passes.softmaxes.joint_softmaxes import (
    depends_on_tangents,
    gradients_and_others,
    has_known_sizes,
    in_dims_of_scores,
    is_narrowed,
    rewrite_gradient,
)
from cuesta.targets import Target

aten = torch.ops.aten
_WIDE = torch.float32
_NARROW = torch.bfloat16
_PRODUCTS = (aten.bmm, aten.mm, aten.baddbmm, aten.addmm)


def read_narrow_softmaxes(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites gradients of softmaxes in a joint graph for a GPU. Without a target, the device of each value decides.
    Where a checkpoint decides what is saved, nothing changes."""
    softmaxes = [
        node
        for node in gm.graph.find_nodes(op="call_function", target=aten._softmax.default)
        if is_for_gpu(node, target) and "recompute" not in node.meta and _is_wide(node)
    ]
    if not softmaxes:
        return
    backward = depends_on_tangents(gm)
    writer = NodeWriter(gm, "rows")
    for node in softmaxes:
        gradients, others = gradients_and_others(node)
        if gradients and all(is_narrowed(user, _WIDE.itemsize, backward) for user in others):
            narrow = next((copy for copy in _narrow_copies(node) if _is_kept(copy, backward)), None)
            if narrow is not None:
                _rewrite(writer, node, narrow, gradients)


def _is_wide(softmax: Node) -> bool:
    """Whether a softmax's result is a tensor in f32 of known sizes, whose elements lie in order."""
    y = softmax.meta["val"]
    return y.dtype == _WIDE and y.dim() > 0 and has_known_sizes(y) and bool(y.is_contiguous())


def _narrow_copies(value: Node) -> Iterator[Node]:
    """The narrow copies of a value that hold its elements in the same order, behind views in whatever order."""
    own = value.meta["val"]
    for user in value.users:
        found = user.meta.get("val")
        if not isinstance(found, torch.Tensor) or found.numel() != own.numel():
            continue
        if lies_in_operands_memory(user):
            yield from _narrow_copies(user) if found.dtype == _WIDE else ()
        elif packet_of(user) in (aten.clone, aten._to_copy) and _lie_alike(own, found):
            if found.dtype == _WIDE:
                yield from _narrow_copies(user)
            elif found.dtype == _NARROW and found.is_contiguous():
                yield user


def _lie_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.stride() == other.stride() or (one.is_contiguous() and other.is_contiguous())


def _is_kept(copy: Node, backward: set[Node]) -> bool:
    """Whether an op of the backward part reads a value, or a view of it, from memory, as products do."""
    return any(
        _is_kept(user, backward) if lies_in_operands_memory(user) else user in backward and packet_of(user) in _PRODUCTS
        for user in copy.users
    )


def _rewrite(writer: NodeWriter, softmax: Node, narrow: Node, gradients: list[Node]) -> None:
    """Lets gradients read the narrow copy, in the dims in which elementwise ops compute the scores."""
    x, dim = in_dims_of_scores(softmax, gradients)
    shape, sizes = list(softmax.meta["val"].shape), list(x.meta["val"].shape)
    if sizes != shape:
        with softmax.graph.inserting_before(softmax):
            result = writer.call(aten._softmax.default, x, dim, softmax.args[2])
            result = writer.call(aten.view.default, result, shape)
        softmax.replace_all_uses_with(result, delete_user_cb=lambda user: user not in gradients)
    with softmax.graph.inserting_before(narrow.next):
        y = writer.call(aten._to_copy.default, writer.call(aten.view.default, narrow, sizes), dtype=_WIDE)
        factor = writer.call(aten.reciprocal.default, writer.call(aten.sum.dim_IntList, y, [dim], True))
        anew = writer.call(aten.mul.Tensor, y, factor)
    for gradient in gradients:
        rewrite_gradient(writer, gradient, anew, dim, sizes)
    if not softmax.users:
        softmax.graph.erase_node(softmax)
