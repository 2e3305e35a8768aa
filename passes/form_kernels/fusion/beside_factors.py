"""Finds elementwise nodes between a value that is dear, and so is written once, and a product's left factor that is
computed in the product's kernel, such as a mask that chooses between a power and 0. They join the product's kernel,
which then reads the value itself. In the kernel that writes it, each would write another tensor, and the product's
kernel would not see where its factor is 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuesta._mlir import ir
from cuesta.passes.form_kernels.fusion.nodes import Node


def beside_factors(
    nodes: Sequence[Node], writer: Mapping[ir.Value, Node], only_reader: Callable[[Node], Node | None]
) -> frozenset[int]:
    """The indices of these nodes. `nodes` are in order; `writer` has the node that writes each value; `only_reader`
    gives a node's one reader, or None if it has none, or several."""
    #: Elementwise nodes whose results lead nowhere but to a factor.
    leading: set[int] = set()
    for node in reversed(nodes):
        reader = only_reader(node) if node.is_elementwise and not node.makes_factor else None
        if reader is not None and (reader.makes_factor or reader.index in leading):
            leading.add(node.index)
    found: set[int] = set()
    for node in nodes:
        makers = [writer[read.value] for read in node.reads if read.value in writer]
        if node.index in leading and not node.is_dear and any(m.is_dear or m.index in found for m in makers):
            found.add(node.index)
    return frozenset(found)
