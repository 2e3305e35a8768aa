"""Saves images and weights for the backward graph in channels_last, where the convolutions of both graphs compute so.

    forward                               backward
    %1 = convolution(%0, %w)              convolution_backward(…, %0, %w)
    saves %0, %1                    →
    saves clone(%0), clone(%1), both in channels_last; permute(%1) as permute(clone(%1))

`passes/choose_layouts` chooses layouts within each graph. The layouts of saved tensors are chosen here by the same
rules, oneDNN's on a CPU and cuDNN's on CUDA, while both graphs are at hand. The copies move nothing where the forward
graph computes in channels_last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeGuard

import torch
from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cuesta.frontend.capture.onednn import is_onednn_convolution
from cuesta.frontend.capture.tensor_cores import cudnn_kernels
from cuesta.frontend.fx_nodes import inserting_behind, is_pointwise, memory_root, packet_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep
from cuesta.policy.convolution_layouts import (
    cuts_patches,
    slow_in_channels_last,
    suits_channels_last,
)

aten = torch.ops.aten
#: Ops that address elements by strides: in another layout they would read other elements.
_BY_STRIDES = frozenset({aten.as_strided, aten.as_strided_copy, aten.as_strided_scatter})

#: Ops whose result has other dims than their operand, though perhaps as many.
_OTHER_DIMS = frozenset({aten.permute, aten.transpose, aten.view, aten.reshape, aten._unsafe_view, aten.t})

#: What aten.view raises, by a kernel or by torch's description of it, where no strides make the view.
_NO_VIEW = (RuntimeError, ValueError)


def save_channels_last(step: TrainingStep) -> None:
    """Makes the forward graph save images, and weights that it has computed, in channels_last if the library that
    computes their convolutions is faster in that layout."""
    forward, backward, outputs = step.forward, step.backward, step.outputs
    nodes = [*forward.graph.nodes, *backward.graph.nodes]
    if any(packet_of(n) in _BY_STRIDES for n in nodes):
        return
    chosen = _in_channels_last(forward)
    if not chosen:
        return
    weights, row_major = _weights(forward), _row_major(forward, chosen)
    results, arguments = step.results, step.arguments
    returned = {memory_root(v) for v in results[:outputs] if isinstance(v, Node)}
    for position, value in enumerate(results[outputs:], outputs):
        if not isinstance(value, Node) or memory_root(value) in returned or value.name not in arguments:
            continue
        image, *views = _from_image(value)
        if image in (chosen | weights) and not image.meta["val"].is_contiguous(memory_format=torch.channels_last):
            copy = _copied(forward, image, views)
        elif value in row_major and not value.meta["val"].is_contiguous():
            copy = _cloned(value, torch.contiguous_format)
        else:
            continue
        argument = arguments[value.name]
        if copy is None or not _has_views(copy.meta["val"], argument):
            continue
        argument.meta["val"] = copy.meta["val"]
        for user in argument.users:
            if packet_of(user) is aten.slice:
                user.meta["val"] = packet_of(user)(argument.meta["val"], *user.args[1:])
        results[position] = copy
    step.results = results
    forward.graph.eliminate_dead_code()  # copies that were not wanted
    forward.recompile()


def _has_views(value: Tensor, argument: Node) -> bool:
    """Whether all views that are taken of an argument are views of `value`, which has another layout, too."""
    for user in argument.users:
        if packet_of(user) in _OTHER_DIMS:
            try:
                packet_of(user)(value, *user.args[1:])
            except _NO_VIEW:
                return False
    return True


def _from_image(value: Node) -> list[Node]:
    """The value that `value` is a view of, through ops with other dims, then the views of it down to `value`."""
    views: list[Node] = []
    while packet_of(value) in _OTHER_DIMS and isinstance(value.args[0], Node):
        views.insert(0, value)
        value = value.args[0]
    return [value, *views]


def _copied(forward: GraphModule, image: Node, views: Sequence[Node]) -> Node | None:
    """A copy of `image` in channels_last, seen through `views`; None where these are no views of that layout."""
    metas = [image.meta["val"].contiguous(memory_format=torch.channels_last)]
    for view in views:
        try:
            metas.append(packet_of(view)(metas[-1], *view.args[1:]))
        except _NO_VIEW:
            return None
    copy = _cloned(image, torch.channels_last)
    for view, meta in zip(views, metas[1:], strict=True):
        with inserting_behind(copy):
            copy = forward.graph.call_function(view.target, (copy, *view.args[1:]))  # type: ignore[arg-type]
        copy.meta["val"] = meta
    return copy


def _cloned(value: Node, layout: torch.memory_format) -> Node:
    """A copy of `value` in another layout."""
    with inserting_behind(value):
        copy = value.graph.call_function(aten.clone.default, (value,), {"memory_format": layout})
    copy.meta["val"] = value.meta["val"].contiguous(memory_format=layout)
    return copy


def _row_major(forward: GraphModule, images: Collection[Node]) -> set[Node]:
    """Values computed element by element from views of images that are row-major if the images are in channels_last,
    such as an image with its channels as the last dim, in another type."""
    metas: dict[Node, Tensor] = {}
    for node in forward.graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or node in images or not isinstance(value, Tensor):
            continue
        if not any(n in metas or n in images for n in node.all_input_nodes) or not _keeps_places(node):
            continue
        args, kwargs = map_arg((node.args, node.kwargs), partial(_relaid, metas, images))
        try:
            metas[node] = node.target(*args, **kwargs)
        except _NO_VIEW:
            continue
    return {node for node, meta in metas.items() if meta.is_contiguous()}


def _relaid(metas: Mapping[Node, Tensor], images: Collection[Node], node: Node) -> Any:
    """The value of a node in its new layout: an image's in channels_last, another's as `metas` has it, if it does."""
    value = node.meta["val"]
    return value.contiguous(memory_format=torch.channels_last) if node in images else metas.get(node, value)


def _keeps_places(node: Node) -> bool:
    """Whether a node's result has its operand's layout, seen with other dims or not."""
    return packet_of(node) in (*_OTHER_DIMS, aten._to_copy) or is_pointwise(node)


def _in_channels_last(forward: GraphModule) -> set[Node]:
    """Images that convolutions in channels_last read or give, and images computed from those (`_passes_images_on`)."""
    found: set[Node] = set()
    for node in forward.graph.nodes:
        if packet_of(node) is aten.convolution:
            if _in_that_layout(node):
                found.update((node,) if _reads_patches(node) else (node, node.args[0]))
        elif any(n in found for n in node.all_input_nodes) and _passes_images_on(node):
            found.add(node)
    return {node for node in found if _is_image(node)}


def _weights(forward: GraphModule) -> set[Node]:
    """The weights that the graph computes for convolutions in channels_last. Gradients take them in that layout."""
    convolutions = [n for n in forward.graph.nodes if packet_of(n) is aten.convolution and _in_that_layout(n)]
    weights = [weight for n in convolutions if isinstance(weight := n.args[1], Node)]
    return {weight for weight in weights if weight.op != "placeholder"}


def _passes_images_on(node: Node) -> bool:
    """Whether a node gives an image, or several results, and does not feed only row-major convolutions. A result that
    is no image ends the chain: heads of an attention that follows, or an image whose dims are in another order."""
    if packet_of(node) in _OTHER_DIMS:
        return False
    return (_is_image(node) or isinstance(node.meta.get("val"), (list, tuple))) and not _feeds_row_major(node)


def _feeds_row_major(node: Node) -> bool:
    """Whether convolutions read a node's value, and none of them computes in channels_last."""
    readers = [user for user in node.users if packet_of(user) is aten.convolution]
    return bool(readers) and not any(map(_in_that_layout, readers))


def _in_that_layout(convolution: Node) -> bool:
    """Whether a convolution computes in channels_last, decided as by choose-layouts."""
    tensors = [n.meta["val"] for n in (*convolution.args[:2], convolution) if _is_image(n)]
    if len(tensors) < 3:
        return False
    rule = {"cpu": _for_onednn, "cuda": _for_cudnn}[tensors[0].device.type]
    return rule(convolution, *tensors)


def _for_onednn(convolution: Node, images: Tensor, weight: Tensor, results: Tensor) -> bool:
    parameters = convolution.args[3:]
    if not is_onednn_convolution(images, transposed=bool(parameters[3])):
        return False
    return suits_channels_last(images.shape, weight.shape, results.shape, parameters)


def _for_cudnn(convolution: Node, images: Tensor, weight: Tensor, results: Tensor) -> bool:
    groups: Any = convolution.args[8]
    return cudnn_kernels(results) == "tensor_cores" and not slow_in_channels_last(weight.shape, groups)


def _reads_patches(convolution: Node) -> bool:
    """Whether a convolution is a product of patches on a GPU, which are copied from images in any layout."""
    args: Any = convolution.args
    images, weight = (node.meta["val"] for node in args[:2])
    return images.device.type == "cuda" and cuts_patches(images.shape, weight.shape, args[3:], on_gpu=True)


def _is_image(node: Any) -> TypeGuard[Node]:
    """Whether a node gives a tensor of four dims, on a CPU or on CUDA, and of fixed sizes."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, Tensor) or value.device.type not in ("cpu", "cuda") or value.layout != torch.strided:
        return False
    return value.dim() == 4 and all(type(n) is int for n in value.shape)
