"""Computes values that depend on no input once, while compiling, where each call of the program would need kernels of
their own for them.

    %m = slice_scatter(full([56, 56], 0), full([7, 7], 1), …)
    %p = cumsum(%m, 1)                                              held: %p
    %y = add(%x, %p)                                         →      %y = add(%x, %p)

Such are the masks of shifted windows and the positions of images. What is computed element by element from numbers and
`arange` stays: the kernel that reads it computes it.
"""

from __future__ import annotations

import torch
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_pointwise, packet_of
from cuesta.frontend.fx_passes.constants.found_constants import (
    LARGEST,
    constants_of,
    is_constructor,
    is_read,
    is_returned,
)
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.python_steps import is_view

aten = torch.ops.aten

#: Ops that are not tagged as pointwise, and that a reader's kernel computes element by element.
_BY_ELEMENT = frozenset({aten._to_copy, aten.clone, aten.copy, aten.fill, aten.tril, aten.triu})


def hold_constants(gm: GraphModule) -> None:
    """Replaces values that depend on no input, and that take more than the kernels of their readers, by tensors that
    the graph holds."""
    constants = constants_of(gm)
    apart: set[Node] = set()
    for node in constants:
        if not _is_by_element(node) or not apart.isdisjoint(node.all_input_nodes):
            apart.add(node)
    if not apart:
        return
    write = NodeWriter(gm, "held")
    for node in [n for n in constants if n in apart and is_read(n, constants) and not is_returned(n)]:
        if node.meta["val"].numel() <= LARGEST:
            held = write.evaluated(node, node.meta["val"].device)
            if held is not None:
                node.replace_all_uses_with(held)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _is_by_element(node: Node) -> bool:
    """Whether the kernel that reads a value computes it with its own elements, or reads it from memory."""
    is_plain = node.op == "get_attr" or is_constructor(node) or is_view(node)
    return is_plain or is_pointwise(node) or packet_of(node) in _BY_ELEMENT
