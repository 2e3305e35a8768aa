"""Saves a small tensor that both graphs read permuted, and repeated, in the order in which they read it.

    forward                                     backward
    %1 = index(%table, [%positions])            permute(%1, [2, 0, 1]), repeated for each sample
    permute(%1, [2, 0, 1])                 →
    saves %1                                    saves %1, its elements in memory as in permute(%1, [2, 0, 1])

Such is an attention's bias from a table of positions, whose rows have a number for each head. A program reads the bias
of one head: where the heads lie side by side, each number is in a sector of its own, which every sample and every layer
reads again. The copy that saves it is the tensor itself: its kernel writes it in that order. Kernels of the forward
graph choose the order by themselves, but for what they return.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.frontend.fx_nodes import inserting_behind, is_for_gpu, is_pointwise, memory_root, packet_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep
from cuesta.targets import Target

aten = torch.ops.aten
#: What computes such a tensor: a kernel of ours, which writes in any order.
_LOOKS_UP = frozenset({aten.embedding, aten.index, aten.gather, aten.index_select})
_VIEWS = frozenset({aten.permute, aten.view, aten.reshape, aten._unsafe_view, aten.unsqueeze, aten.squeeze})
#: Elements of what is computed with such a tensor, over its own: from there on it counts as repeated.
_REPEATED = 2


def save_turned(step: TrainingStep, target: Target | None = None) -> None:
    """Makes the forward graph save such tensors in the order in which they are read, for a GPU; None stands for the
    device of each value."""
    results, arguments = step.results, step.arguments
    returned = {memory_root(value) for value in results[: step.outputs] if isinstance(value, Node)}
    is_changed = False
    for position, value in enumerate(results[step.outputs :], step.outputs):
        if not isinstance(value, Node) or memory_root(value) in returned or value.name not in arguments:
            continue
        argument = arguments[value.name]
        if not _is_written_by_kernel(value) or not is_for_gpu(value, target):
            continue
        order = _order(value, argument)
        if order is not None:
            results[position] = copy = _turned(value, order)
            argument.meta["val"] = copy.meta["val"]
            is_changed = True
    if is_changed:
        step.results = results
        step.recompile()


def _is_written_by_kernel(value: Node) -> bool:
    """Whether a kernel of ours computes a row-major tensor of known sizes."""
    tensor = value.meta.get("val")
    if not isinstance(tensor, Tensor) or any(type(n) is not int for n in tensor.shape):
        return False
    return tensor.is_contiguous() and (packet_of(value) in _LOOKS_UP or is_pointwise(value))


def _order(value: Node, argument: Node) -> list[int] | None:
    """The dims by which all that reads a value, in both graphs, permutes it, if its last dim is not the last one then,
    and if what the backward graph computes with it repeats it; else None."""
    readers = [*(user for user in value.users if user.op != "output"), *argument.users]
    if not argument.users or any(packet_of(reader) is not aten.permute for reader in readers):
        return None
    rank = value.meta["val"].dim()
    orders = {tuple(d % rank for d in reader.args[1]) for reader in readers}  # type: ignore[union-attr]
    if len(orders) != 1 or (order := [*orders.pop()])[-1] == rank - 1:
        return None
    return order if all(_is_repeated(reader, value.meta["val"].numel()) for reader in argument.users) else None


def _is_repeated(view: Node, elements: int) -> bool:
    """Whether all that reads a view has many more elements than it."""
    for user in view.users:
        result = user.meta.get("val")
        if not isinstance(result, Tensor):
            return False
        if result.numel() < _REPEATED * elements and not (packet_of(user) in _VIEWS and _is_repeated(user, elements)):
            return False
    return bool(view.users)


def _turned(value: Node, order: list[int]) -> Node:
    """A copy of a value, row-major when its dims are in `order`."""
    view = _behind(value, aten.permute.default, order)
    copy = _behind(view, aten.clone.default, memory_format=torch.contiguous_format)
    return _behind(copy, aten.permute.default, [order.index(d) for d in range(len(order))])


def _behind(value: Node, op: Any, *args: Any, **kwargs: Any) -> Node:
    """A call of an op on a value, just behind it."""
    with inserting_behind(value):
        made = value.graph.call_function(op, (value, *args), kwargs)
    made.meta["val"] = op(value.meta["val"], *args, **kwargs)
    return made
