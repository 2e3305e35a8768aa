"""Turns views by strides that show every element of a tensor once into permutations of its dims, and their gradients.

    %1 = as_strided(%x, [8, 64, 1, 1], [64, 1, 64, 64])            %1 = alias(%x)
    …                                                              …
    %2 = copy(as_strided(%z, [8, 64], [64, 1], 0), %g)        →    %3 = _unsafe_view(clone(%g), [512])
    %3 = as_strided_scatter(%z, %2, [8, 64], [64, 1], 0)           %4 = view(%3, [8, 64, 1, 1])
    %4 = as_strided(%3, [8, 64, 1, 1], [64, 1, 1, 1], 0)           %z = new_zeros(%g, [512]) is not read

Torch ends the mean over a channels_last image's pixels with such a view, and autograd writes a view's gradient into the
memory of the viewed tensor. A view by strides says where its elements lie in memory. So `save-channels-last` leaves a
graph that has one alone, and a view at an offset in memory that other views show runs in Python, between two programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter, replace_each
from cuesta.frontend.python_steps import COPIES_OF_WHOLE_MEMORY, offset_of, views_of
from cuesta.torch_private.symbolic_shapes import statically_known_true

aten = torch.ops.aten

#: Ops that make a tensor, row-major and in memory of its own, from sizes alone.
_MADE = frozenset({aten.new_zeros, aten.zeros, aten.new_empty, aten.empty, aten.new_full, aten.full})


def permute_strided_views(gm: GraphModule) -> None:
    """Rewrites a graph's views by strides that show all elements once, and writes through such views."""
    nodes = [node for node in gm.graph.nodes if packet_of(node) in _RULES]
    replace_each(gm, "strided_views", nodes, lambda write, node: _RULES[packet_of(node)](write, node))


def _view(write: NodeWriter, node: Node) -> Node | None:
    """What a view shows, as a permutation of its operand's dims; None for a view of some elements, or some twice."""
    (x,) = node.all_input_nodes[:1]
    given, seen = x.meta["val"], node.meta["val"]
    offset = offset_of(node)
    if not isinstance(seen, Tensor) or not (offset is None or (offset == 0 and _begins_its_memory(x))):
        return None
    if _are_equal(given.shape, seen.shape) and _are_equal(_moving(given), _moving(seen)):
        return _described(write.call(aten.alias.default, x), seen)
    lying, order = _slowest_first(given.shape, given.stride()), _slowest_first(seen.shape, seen.stride())
    if lying is None or order is None or given.numel() != seen.numel():
        return None
    line = _line(write, x, lying)
    apart = write.call(aten.view.default, line, [seen.shape[d] for d in order])
    return _described(write.call(aten.permute.default, apart, [order.index(d) for d in range(len(order))]), seen)


def _described(view: Node, seen: Tensor) -> Node:
    """A view with the traced value of the one that it replaces: a result has its strides along dims of size 1 too."""
    view.meta["val"] = seen
    return view


def _made(write: NodeWriter, node: Node) -> Node | None:
    """The tensor that is written through a view that shows all of its elements; None for other writes."""
    x, values = node.all_input_nodes[:2]
    if packet_of(x) not in _MADE:
        return None
    strides: Any = node.args[3]
    order = _slowest_first(values.meta["val"].shape, strides)
    if offset_of(node) or order is None or not _are_equal([values.meta["val"].numel()], [x.meta["val"].numel()]):
        return None
    if packet_of(values) is aten.copy and len(values.all_input_nodes) == 2:
        written = values.all_input_nodes[1]
        values = written if written.meta["val"].shape == values.meta["val"].shape else values
    if values.meta["val"].dtype != node.meta["val"].dtype:
        return None
    # In memory of its own, and no view: the caller may write to it, and what follows count from where it begins.
    lying = write.call(aten.permute.default, values, order)
    copy = write.call(aten.clone.default, lying, memory_format=torch.contiguous_format)
    return write.call(aten._unsafe_view.default, copy, [*x.meta["val"].shape])


def _line(write: NodeWriter, x: Node, order: Sequence[int]) -> Node:
    """A tensor's elements side by side, with its dims in this order, the slowest first."""
    lying = write.call(aten.permute.default, x, [*order])
    if not lying.meta["val"].is_contiguous():
        lying = write.call(aten.clone.default, lying, memory_format=torch.contiguous_format)
    return write.call(aten.view.default, lying, [lying.meta["val"].numel()])


def _begins_its_memory(x: Node) -> bool:
    """Whether a tensor is computed by the graph, and its memory begins with its first element."""
    _, root = views_of(x)
    computed = root.op == "call_function" and root.target not in COPIES_OF_WHOLE_MEMORY
    return computed and all(_are_equal([n.meta["val"].storage_offset()], [0]) for n in (x, root))


def _slowest_first(sizes: Sequence[Any], strides: Sequence[Any]) -> list[int] | None:
    """The dims of a tensor whose elements are side by side, each once, from the slowest to the fastest; None for other
    tensors, and where that depends on the call."""
    if not all(isinstance(n, int) for n in (*sizes, *strides)) or 0 in sizes:
        return None
    order = sorted(range(len(sizes)), key=lambda d: (-strides[d], sizes[d] == 1, d))
    step = 1
    for d in reversed(order):
        if sizes[d] != 1:
            if strides[d] != step:
                return None
            step *= sizes[d]
    return order


def _moving(x: Tensor) -> list[Any]:
    """A tensor's strides, 0 for dims along which nothing moves."""
    return [0 if isinstance(n, int) and n == 1 else stride for n, stride in zip(x.shape, x.stride(), strict=True)]


def _are_equal(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(statically_known_true(m == n) for m, n in zip(a, b, strict=True))


_RULES = {aten.as_strided: _view, aten.as_strided_scatter: _made}
