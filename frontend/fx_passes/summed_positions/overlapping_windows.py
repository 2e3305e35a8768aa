"""Turns sums at the positions of overlapping windows into sums of shifted windows, which need no atomics.

    %p = as_strided(arange(1024), [7, 256], [128, 1])         %g = reshape(%g, [7, 2, 128])
    %r = index_add(zeros(1024), 0, flat(%p), flat(%g))    →   %r = pad(%g[:, 0], 0, 1) + pad(%g[:, 1], 1, 0)

So is the gradient of windows that overlap (`as_strided`, as attention in chunks makes them) where their length is a
multiple of their distance. Each is cut into parts of that distance, of which an element of the result adds up one of
each kind. The parts that meet are added in the order of the windows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter, replace_each
from cuesta.frontend.fx_passes.summed_positions.gathered_gradients import added

aten = torch.ops.aten

#: Ops that leave a tensor's elements in order.
_SAME_ORDER = frozenset({aten.view, aten._unsafe_view, aten.reshape, aten.clone, aten.alias})
#: The most windows that meet in an element: each is an op of its own.
_MOST = 8


@dataclass(frozen=True)
class Windows:
    """Windows that cover all places of a line. `order` are their dims from the slowest to the fastest, of which `dim`
    counts the windows and the next one the rows of a window; `step` rows further begins the next window."""

    order: tuple[int, ...]
    dim: int
    step: int

    @staticmethod
    def of(sizes: Sequence[int], strides: Sequence[int], places: int) -> Windows | None:
        """The windows that a strided view of a line shows; None where they do not overlap like this."""
        order = sorted(range(len(sizes)), key=lambda d: (strides[d], sizes[d]))
        found: tuple[int, int] | None = None
        end = 1
        for at, d in enumerate(order):
            rows = order[at - 1]
            if strides[d] == end:
                end *= sizes[d]
            elif found is None and at and strides[d] < end and sizes[d] > 1 and strides[rows] * sizes[rows] == end:
                step, rest = divmod(strides[d], strides[rows])
                if rest or sizes[rows] % step or sizes[rows] // step > _MOST:
                    return None
                found, end = (len(order) - 1 - at, step), strides[d] * (sizes[d] - 1) + end
            else:
                return None
        return None if found is None or end != places else Windows(tuple(reversed(order)), *found)


def add_windows(gm: GraphModule) -> None:
    """Rewrites a graph's sums at positions of overlapping windows."""
    sums = [node for node in gm.graph.nodes if node.target == aten.index_add.default]
    replace_each(gm, "windows", sums, _summed)


def _summed(write: NodeWriter, node: Node) -> Node | None:
    """The sum that an index_add computes; None for others."""
    x, dim, index, values = node.args[:4]
    assert isinstance(x, Node) and isinstance(index, Node) and isinstance(values, Node)
    if len(node.meta["val"].shape) != 1 or dim != 0 or node.kwargs:
        return None
    (places,), view = node.meta["val"].shape, _root(index)
    if view.target is not aten.as_strided.default or not _counts(view.args[0]):
        return None
    sizes, strides, offset = map(_numbers, (*view.args[1:], 0)[:3])
    if sizes is None or strides is None or offset != [0] or not isinstance(places, int):
        return None
    windows = Windows.of(sizes, strides, places)
    return None if windows is None else added(write, x, _shifted(write, values, sizes, windows, places))


def _root(node: Node) -> Node:
    """What a node was before ops that leave all elements in order."""
    while packet_of(node) in _SAME_ORDER:
        (node,) = node.all_input_nodes
    return node


def _numbers(argument: Any) -> list[int] | None:
    """A node's argument as numbers; None where one depends on the call."""
    found = [*argument] if isinstance(argument, (list, tuple)) else [argument or 0]
    return found if all(isinstance(n, int) for n in found) else None


def _counts(line: Any) -> bool:
    """Whether a node is 0, 1, 2 and so on."""
    if not isinstance(line, Node) or line.target not in (aten.arange.default, aten.arange.start):
        return False
    first = line.args[0] if line.target is aten.arange.start else 0
    return isinstance(first, int) and first == 0


def _shifted(write: NodeWriter, values: Node, sizes: Sequence[int], windows: Windows, places: int) -> Node:
    """The sum of windows, as a line."""
    dim, order = windows.dim, windows.order
    lying = write.call(aten.permute.default, write.call(aten.reshape.default, values, list(sizes)), list(order))
    shape = [sizes[d] for d in order]
    meeting = shape[dim + 1] // windows.step
    apart = write.call(aten.reshape.default, lying, [*shape[: dim + 1], meeting, windows.step, *shape[dim + 2 :]])
    parts = []
    for number in reversed(range(meeting)):
        part = write.call(aten.select.int, apart, dim + 1, number)
        padding = [0] * (2 * (len(shape) - dim - 1)) + [number, meeting - 1 - number]
        parts.append(write.call(aten.constant_pad_nd.default, part, padding))
    total = functools.reduce(functools.partial(write.call, aten.add.Tensor), parts)
    assert math.prod(total.meta["val"].shape) == places
    # No view: the op behind it, as_strided, may count from where the sum's memory begins.
    return write.call(aten._unsafe_view.default, total, [places])
