"""Rewrites convolutions of an inference graph to use weights packed by oneDNN, fused with the ops that follow them.

    %2 = convolution(%x, %w)                      %held: handles of %w · %g / sqrt(%var + eps), packed, and of
    %3 = batch_norm(%2, %g, %b, %mean, %var)  →          %b - %mean · %g / sqrt(%var + eps)
    %4 = relu(%3 + %y)                            %4 = packed_convolution_add(%x, %y, %held, …, "relu")

Weight and bias are computed in f64 and rounded once, when first met and whenever they change (frozen_arguments.py).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.driver.freezing import packed_convolutions
from cuesta.driver.freezing.frozen_arguments import FrozenArgument
from cuesta.driver.freezing.packed_convolutions import ACTIVATIONS, ACTIVATIONS_OF_SUMS
from cuesta.frontend.fx_nodes import add_argument
from cuesta.frontend.rules import sizes_of
from cuesta.policy.convolution_layouts import cuts_patches
from cuesta.sizes import estimate

_ATEN = torch.ops.aten
_NORM = _ATEN._native_batch_norm_legit_no_training.default
#: Up to this many rows our kernels compute a product faster than a library (passes/libraries/products/panels.py).
_FEW_ROWS = 64
#: From this ratio of output to input channels on, batch norm and activation are faster inside oneDNN's call.
_WIDENING = 3
_STATISTICS = ("scale", "shift", "mean", "var")


#: padding, stride, dilation and groups, in the order of oneDNN's ops.
_Places: TypeAlias = tuple[list[int], list[int], list[int], int]


@dataclass
class _Convolution:
    """A convolution with the following ops that its call fuses."""

    x: Node
    #: the last node that the call computes
    last: Node
    places: _Places
    #: the operands from which weight and bias are computed, by role
    sources: dict[str, Node]
    eps: float = 0.0
    added: Node | None = None
    activation: str = "none"

    @property
    def weight(self) -> Tensor:
        value: Tensor = self.sources["weight"].meta["val"]
        return value


def freeze_convolutions(
    gm: torch.fx.GraphModule, positions: Mapping[Node, int], products: bool
) -> list[FrozenArgument]:
    """Rewrites the convolutions of a graph to take packed weights, one more argument each.

    `positions` are those of parameters and buffers that the graph does not write. With `products`, convolutions that
    are matrix products are rewritten as well, because the library would compute these anyway; without, only those that
    widen images.
    """
    if not packed_convolutions.can_pack():
        return []
    frozen: list[FrozenArgument] = []
    for node in gm.graph.find_nodes(op="call_function", target=_ATEN.convolution.default):
        if not _can_be_packed(node, positions):
            continue
        if _is_product(node) and not (_has_many_rows(node) and (products or _widens(node))):
            continue
        found = _with_what_follows(node, positions)
        images = found.x.meta["val"].shape
        known = list(images) if all(isinstance(n, int) for n in images) else None
        make = functools.partial(_make, names=tuple(found.sources), eps=found.eps, places=found.places, images=known)
        frozen.append(FrozenArgument(tuple(positions[source] for source in found.sources.values()), make))
        held = found.weight.new_empty((2,), dtype=torch.int64)
        _replace(gm.graph, found, add_argument(gm.graph, f"held_{len(frozen)}", held))
    return frozen


def _arguments(node: Node) -> tuple[Any, ...]:
    return node.args


def _can_be_packed(node: Node, positions: Mapping[Node, int]) -> bool:
    x, weight, bias, *parameters = _arguments(node)
    images, window = x.meta["val"], weight.meta["val"]
    if weight not in positions or (bias is not None and bias not in positions):
        return False
    plain = all(t.dtype == torch.float32 and t.device.type == "cpu" and t.dim() == 4 for t in (images, window))
    transposed = parameters[3]
    return plain and not transposed and not cuts_patches(sizes_of(images), sizes_of(window), parameters)


def _is_product(node: Node) -> bool:
    """Whether the convolution is a matrix product in channels_last, by the rule of `multiply-convolutions`."""
    _, weight, _, stride, padding, *_, groups = _arguments(node)
    _, _, *window = weight.meta["val"].shape
    return groups == 1 and all(n == 1 for n in (*window, *stride)) and not any(padding)


def _has_many_rows(node: Node) -> bool:
    """Whether the product has too many rows (places of the result) for our kernels for few rows."""
    n, _, h, w = sizes_of(node.meta["val"])
    return estimate((n, h, w)) > _FEW_ROWS


def _widens(node: Node) -> bool:
    """Whether the result has so many more channels than the images that a separate epilogue kernel, which reads the
    result again, costs more than our products save."""
    _, weight, *_ = _arguments(node)
    outputs, inputs, *_ = sizes_of(weight.meta["val"])
    return bool(outputs >= _WIDENING * inputs)


def _with_what_follows(node: Node, positions: Mapping[Node, int]) -> _Convolution:
    x, weight, bias, stride, padding, dilation, *_, groups = _arguments(node)
    sources = {"weight": weight} | ({"bias": bias} if bias is not None else {})
    found = _Convolution(x, node, (padding, stride, dilation, groups), sources)
    _take_norm(found, positions)
    _take_sum(found)
    last = _only_user(found.last)
    known = ACTIVATIONS if found.added is None else ACTIVATIONS_OF_SUMS
    if last is not None and last.target in known:
        found.activation, found.last = known[last.target], last
    return found


def _take_norm(found: _Convolution, positions: Mapping[Node, int]) -> None:
    """Fuses a batch norm in evaluation mode."""
    norm = _only_user(found.last)
    if norm is None or norm.target is not _NORM:
        return
    x, *statistics, _, eps = _arguments(norm)
    given = {name: arg for name, arg in zip(_STATISTICS, statistics, strict=True) if arg is not None}
    result = _only_user(norm)
    if x is not found.last or result is None or result.args[1:] != (0,):
        return
    if all(arg in positions and arg.meta["val"].dtype == torch.float32 for arg in given.values()):
        found.sources |= given
        found.eps, found.last = eps, result


def _take_sum(found: _Convolution) -> None:
    """Fuses an addition to the result, if both operands have the same sizes."""
    total = _only_user(found.last)
    if total is None or total.target is not _ATEN.add.Tensor or total.kwargs:
        return
    others = [arg for arg in total.args if arg is not found.last]
    if len(others) != 1 or not isinstance(others[0], Node):
        return
    value, own = others[0].meta["val"], found.last.meta["val"]
    if isinstance(value, Tensor) and value.dtype == torch.float32 and sizes_of(value) == sizes_of(own):
        found.added, found.last = others[0], total


def _only_user(node: Node) -> Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def _replace(graph: torch.fx.Graph, found: _Convolution, held: Node) -> None:
    has_bias = len(found.sources) > 1
    row_major = found.last.meta["val"].is_contiguous()
    rest = (held, has_bias, list(found.weight.shape), *found.places, found.activation, row_major)
    with graph.inserting_before(found.last):
        if found.added is None:
            call = graph.call_function(torch.ops.cuesta.packed_convolution.default, (found.x, *rest))
        else:
            call = graph.call_function(torch.ops.cuesta.packed_convolution_add.default, (found.x, found.added, *rest))
    call.meta = dict(found.last.meta)
    found.last.replace_all_uses_with(call)


def _make(*sources: Tensor, names: Sequence[str], eps: float, places: _Places, images: Sequence[int] | None) -> Tensor:
    """Makes the handles of the packed weight and of the bias, with the batch norm folded into both."""
    given = dict(zip(names, sources, strict=True))
    weight, bias = given["weight"], given.get("bias")
    if "var" in given:
        wide = {name: tensor.double() for name, tensor in given.items()}
        factor = (wide["var"] + eps).rsqrt() * wide.get("scale", 1.0)
        moved = (wide.get("bias", 0.0) - wide["mean"]) * factor + wide.get("shift", 0.0)
        weight, bias = (wide["weight"] * factor[:, None, None, None]).float(), moved.float()
    return packed_convolutions.pack(weight, bias, *places, images)
