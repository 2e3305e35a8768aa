"""Finds elementwise nodes that only reductions read and that compute from widened tensors. They join the reduction's
kernel, so that only the narrow tensors are read from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuesta._mlir import ir
from cuesta.passes.form_kernels.fusion.nodes import Node

#: Gives a node's one reader, or None if it has none, or several.
_OnlyReader = Callable[[Node], Node | None]


def reduced_from_narrow(
    nodes: Sequence[Node], writer: Mapping[ir.Value, Node], only_reader: _OnlyReader
) -> frozenset[int]:
    """The indices of the elementwise nodes such that a reduction is all that reads what a node, and such nodes behind
    it, compute from widened tensors. `nodes` are in order; `writer` has the node that writes each value."""
    loops: dict[int, set[int]] = {}
    for node in reversed(nodes):  # a node's reader is behind it
        loops[node.index] = _reduced_loops(node, only_reader(node), loops)
    found: set[int] = set()
    for node in nodes:
        if _is_from_narrow(node, loops[node.index], writer, only_reader, found):
            found.add(node.index)
    return frozenset(found)


def _reduced_loops(node: Node, reader: Node | None, loops: Mapping[int, set[int]]) -> set[int]:
    """The loops of an elementwise node along which its only reader, or that one's and so on, reduces its result.
    `loops` has those of the nodes behind it."""
    if reader is None or not all(node.parallel):
        return set()
    reduced = {d for d, kept in enumerate(reader.parallel) if not kept} or loops[reader.index]
    read = next((r for r in reader.reads if r.value in node.results), None)
    if read is None:
        return set()
    return {own for own, d in zip(node.writes[0], read.dims, strict=True) if d in reduced}


def _is_from_narrow(
    node: Node, reduced: set[int], writer: Mapping[ir.Value, Node], only_reader: _OnlyReader, found: set[int]
) -> bool:
    """Whether all that a node reads along the loops `reduced` is widened, or computed so by nodes, which are `found`,
    that nothing else reads. A vector that only these loops walk is a factor of a product, and stays with it."""
    along = [read for read in node.reads if reduced & {*read.dims}]
    if not along or any(len(read.dims) < len(node.sizes) for read in along):
        return False
    makers = [writer.get(read.value) for read in along]
    return all(
        maker is not None and (maker.widens or (only_reader(maker) is node and maker.index in found))
        for maker in makers
    )
