"""Saves where the maxima of a pooling lie as short offsets from their windows' first places.

    forward                                     backward
    %1 = max_pool2d_with_indices(%0, …)         max_pool2d_with_indices_backward(…, %i)
    saves %i = %1[1], i64                  →
    saves %o = i16(%i - first places)           cuesta::max_pool_backward(…, %o)

A position takes eight bytes, and the maximum itself two or four. An offset is less than what a window spans, a few rows
of the image. The forward graph computes it in the loops of the pooling. The gradient compares it with each place's own.
On a CPU, ATen computes some of these gradients, and needs the positions in memory.
"""

from __future__ import annotations

import operator

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_for_gpu, memory_root
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep, argument_for
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.targets import Target

aten = torch.ops.aten
_OFFSET = torch.int16
_BACKWARD = aten.max_pool2d_with_indices_backward.default


def save_offsets(step: TrainingStep, target: Target | None = None) -> None:
    """Makes the forward graph save offsets in place of positions, where they are short and the target is a GPU; None
    stands for the device of each value."""
    results, arguments = step.results, step.arguments
    returned = {memory_root(value) for value in results[: step.outputs] if isinstance(value, Node)}
    is_changed = False
    for position, value in enumerate(results[step.outputs :], step.outputs):
        if not isinstance(value, Node) or value in returned or value.name not in arguments:
            continue
        argument, pool = arguments[value.name], _pooling(value)
        if pool is None or not is_for_gpu(value, target) or not _has_short_offsets(pool, value):
            continue
        if not all(user.target is _BACKWARD and user.args[-1] is argument for user in argument.users):
            continue
        results[position] = offset = _offset(step.forward, value, pool)
        argument.replace_all_uses_with(argument_for(offset, argument))
        step.backward.graph.erase_node(argument)
        for user in list(step.arguments[offset.name].users):
            _read_offsets(step.backward, user, pool)
        is_changed = True
    if is_changed:
        step.results = results
        step.recompile()


def _pooling(value: Node) -> Node | None:
    """The pooling whose positions a value is."""
    pool = value.args[0] if value.target is operator.getitem and value.args[1] == 1 else None
    return pool if isinstance(pool, Node) and pool.target is aten.max_pool2d_with_indices.default else None


def _has_short_offsets(pool: Node, value: Node) -> bool:
    """Whether the places of each window follow one another, and the last one's offset from the first is short."""
    image = pool.all_input_nodes[0].meta["val"]
    (height, width), _, _, dilation = _shape(pool)
    sizes_known = all(type(n) is int for n in (*image.shape, *value.meta["val"].shape))
    return sizes_known and dilation == [1, 1] and (height - 1) * image.shape[-1] + width <= torch.iinfo(_OFFSET).max


def _shape(pool: Node) -> list[list[int]]:
    """Kernel, stride, padding and dilation of a pooling, each along both dims."""
    given = dict(enumerate(pool.args))
    kernel, stride, padding, dilation = (_pair(given.get(i, default)) for i, default in enumerate(([], [], 0, 1), 1))
    return [kernel, stride or kernel, padding, dilation]


def _pair(numbers: object) -> list[int]:
    listed = [numbers] if isinstance(numbers, int) else list(numbers)  # type: ignore[call-overload]
    return listed * 2 if len(listed) == 1 else listed


def _offset(forward: GraphModule, value: Node, pool: Node) -> Node:
    """The offsets of positions, inserted behind them."""
    _, stride, padding, _ = _shape(pool)
    pooled = value.meta["val"]
    writer = NodeWriter(forward, "offset")
    with forward.graph.inserting_before(value.next):
        rows, columns = (_along(writer, pooled.shape[d - 2], stride[d], padding[d], pooled.device) for d in range(2))
        width = pool.all_input_nodes[0].meta["val"].shape[-1]
        rows = writer.call(aten.mul.Tensor, writer.call(aten.unsqueeze.default, rows, 1), width)
        places = writer.call(aten.add.Tensor, rows, columns)
        offset = writer.call(aten.sub.Tensor, value, places)
        # By a name that no node of the backward graph has.
        narrow = forward.graph.create_node(
            "call_function", aten._to_copy.default, (offset,), {"dtype": _OFFSET}, name=f"{value.name}_offset"
        )
    narrow.meta["val"] = offset.meta["val"].to(_OFFSET)
    return narrow


def _along(writer: NodeWriter, count: int, stride: int, padding: int, device: torch.device) -> Node:
    """Where windows begin along a dim."""
    numbers = writer.call(aten.arange.default, count, dtype=torch.int64, device=device)
    return writer.call(aten.sub.Tensor, writer.call(aten.mul.Tensor, numbers, stride), padding)


def _read_offsets(backward: GraphModule, gradient: Node, pool: Node) -> None:
    """Replaces the gradient of a pooling by one that reads offsets, as its argument is now."""
    grad, x, *_, ceil_mode, offsets = gradient.args
    kernel, stride, padding, _ = _shape(pool)
    with backward.graph.inserting_before(gradient):
        made = backward.graph.call_function(
            torch.ops.cuesta.max_pool_backward.default, (grad, x, kernel, stride, padding, ceil_mode, offsets)
        )
    made.meta = dict(gradient.meta)
    gradient.replace_all_uses_with(made)
    backward.graph.erase_node(gradient)
