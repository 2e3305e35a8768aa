"""Saves a tensor only as part of a concatenation, where the forward graph saves that concatenation as well.

    forward                            backward
    %1 = cat(%0, %a)                   uses %0, %1, %2
    %2 = cat(%0, %a, %b)       →
    saves %0, %1, %2                   saves %2; the backward graph takes slices of it

Each layer of a DenseNet's block saves the results of all layers before it. Once only the last concatenation is saved,
the other concatenations are parts of its buffer, and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.fx import Node

from cuesta.frontend.fx_nodes import is_pointwise, keep_results, last_placeholder, packet_of
from cuesta.frontend.fx_passes.fx_pipeline import TrainingStep

aten = torch.ops.aten

#: Contiguous bytes that a part needs to be read as fast as a separate tensor: two sectors of a GPU's memory.
_LEAST_RUN = 64
#: Alignment of a part's first byte, in bytes, for wide loads.
_ALIGNMENT = 16
#: Ops that read a strided tensor in place, besides pointwise ops: cuesta compiles all of them to kernels.
_READERS = frozenset(
    {
        *("aten.sum", "aten.mean", "aten.var_mean", "aten.amax", "aten.slice", "aten.cat", "aten._to_copy"),
        *("aten.clone", "cuesta.batch_norm_backward"),
    }
)
_VIEWS = frozenset({aten.view, aten.reshape, aten.permute, aten.expand, aten.unsqueeze, aten.squeeze})


@dataclass(frozen=True)
class Part:
    """A node's elements are `start` to `end` along `dim` of `whole`, a saved concatenation."""

    whole: Node
    dim: int
    start: int
    end: int


def save_once(step: TrainingStep) -> None:
    """Removes saved tensors that are part of another saved tensor, from the two graphs of a training step."""
    results, outputs, arguments = step.results, step.outputs, step.arguments
    saved = [v for v in results[outputs:] if isinstance(v, Node) and isinstance(v.meta.get("val"), Tensor)]
    parts = _parts(saved, set(results[:outputs]))
    known = {n: part for n, part in parts.items() if {n.name, part.whole.name} <= arguments.keys()}
    gone = [n for n in known if is_read_in_place(arguments[n.name])]
    if not gone:
        return
    for value in gone:
        argument, part = arguments[value.name], parts[value]
        argument.replace_all_uses_with(slice_of(arguments[part.whole.name], part))
        step.backward.graph.erase_node(argument)
    keep_results(step.forward.graph, [i for i, value in enumerate(results) if i < outputs or value not in gone])
    step.recompile()


def _parts(saved: Sequence[Node], returned: set[Node]) -> dict[Node, Part]:
    """Saved node → its place in the largest saved concatenation that contains it, which is itself part of none."""
    leaves = {n: leaves_of(n) for n in saved if n.target is aten.cat.default}
    found: dict[Node, Part] = {}
    for whole in sorted(leaves, key=lambda n: -len(leaves[n])):
        if whole in found:
            continue
        dim = dim_of(whole)
        for node in saved:
            if node in found or node in returned or node.op != "call_function":
                continue
            own = leaves[node] if node in leaves and dim_of(node) == dim else [node]
            start = _find(own, leaves[whole])
            if start is not None and (part := part_of(node, whole, dim, leaves[whole][:start])) is not None:
                found[node] = part
    return found


def dim_of(node: Node) -> int:
    """The dim of a concatenation, counted from the front."""
    dim = node.args[1] if len(node.args) > 1 else node.kwargs.get("dim", 0)
    assert isinstance(dim, int)
    return dim % node.meta["val"].dim()


def leaves_of(node: Node) -> list[Node]:
    """The operands of a concatenation; operands that are concatenations along the same dim are flattened."""
    found: list[Node] = []
    for value in node.args[0]:  # type: ignore[union-attr]
        assert isinstance(value, Node)
        nested = value.target is aten.cat.default and dim_of(value) == dim_of(node)
        found += leaves_of(value) if nested else [value]
    return found


def _find(part: Sequence[Node], whole: Sequence[Node]) -> int | None:
    """The index at which `part` occurs in `whole`; None where it does not, or is all of `whole`."""
    if len(part) >= len(whole):
        return None
    starts = (i for i in range(len(whole) - len(part) + 1) if list(whole[i : i + len(part)]) == list(part))
    return next(starts, None)


def part_of(node: Node, whole: Node, dim: int, before: Sequence[Node]) -> Part | None:
    """The place of `node` in `whole`, behind the tensors `before`; None where reading it there would be slower."""
    own, all_of_it = node.meta["val"], whole.meta["val"]
    tensors = [n.meta["val"] for n in before]
    if own.dtype != all_of_it.dtype or any(t.dim() != own.dim() for t in (*tensors, all_of_it)):
        return None
    sizes = [t.shape[dim] for t in (*tensors, own)]
    stride = all_of_it.stride(dim)
    if not all(isinstance(n, int) for n in sizes) or not isinstance(stride, int):
        return None  # a slice of the backward graph would need the size as an argument
    start, size, step = sum(sizes[:-1]), sizes[-1], stride * own.element_size()
    if size * step < _LEAST_RUN or start * step % _ALIGNMENT:
        return None
    return Part(whole, dim, start, start + size)


def is_read_in_place(node: Node) -> bool:
    """Whether all users of a node can read it as a slice, in place; a library call would need a copy."""
    return all(is_read_in_place(user) if packet_of(user) in _VIEWS else _is_reader(user) for user in node.users)


def _is_reader(node: Node) -> bool:
    return is_pointwise(node) or str(packet_of(node)) in _READERS


def slice_of(whole: Node, part: Part) -> Node:
    """A slice of `whole`, an argument of a backward graph, at a part's place."""
    graph = whole.graph
    with graph.inserting_after(last_placeholder(graph)):
        made = graph.call_function(aten.slice.Tensor, (whole, part.dim, part.start, part.end))
    value: Tensor = whole.meta["val"]
    made.meta["val"] = value.narrow(part.dim, part.start, part.end - part.start)
    return made
