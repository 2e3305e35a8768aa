"""Finds elementwise nodes that only reductions read and that compute from widened tensors. They join the reduction's
kernel, so that only the narrow tensors are read from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.passes.form_kernels.fusion.nodes import Node


@dataclass(frozen=True)
class NarrowSums:
    """`writer` has the node that writes each value; `only_reader` gives a node's one reader, if it has just one."""

    writer: Mapping[ir.Value, Node]
    only_reader: Callable[[Node], Node | None]

    def has(self, node: Node) -> bool:
        """Whether a reduction is all that reads what a node, and such nodes behind it, compute element by element from
        widened tensors."""
        reduced = self._reduced_loops(node)
        return bool(reduced) and self._is_from_narrow(node, reduced)

    def _reduced_loops(self, node: Node) -> set[int]:
        """The loops of an elementwise node along which its only reader, or that one's and so on, reduces its result."""
        reader = self.only_reader(node)
        if reader is None or not all(node.parallel):
            return set()
        loops = {d for d, kept in enumerate(reader.parallel) if not kept} or self._reduced_loops(reader)
        read = next((r for r in reader.reads if r.value in node.results), None)
        if read is None:
            return set()
        return {own for own, d in zip(node.writes[0], read.dims, strict=True) if d in loops}

    def _is_from_narrow(self, node: Node, reduced: set[int]) -> bool:
        """Whether all that a node reads along the loops `reduced` is widened, or computed so by nodes that nothing else
        reads. A vector that only these loops walk is a factor of a product, and stays with it."""
        along = [read for read in node.reads if reduced & {*read.dims}]
        if not along or any(len(read.dims) < len(node.sizes) for read in along):
            return False
        return all(self._is_widened(read.value, node) for read in along)

    def _is_widened(self, value: ir.Value, reader: Node) -> bool:
        writer = self.writer.get(value)
        if writer is None or writer.widens:
            return writer is not None
        return self.only_reader(writer) is reader and self._is_from_narrow(writer, self._reduced_loops(writer))
