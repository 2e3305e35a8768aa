"""Holds numbers that depend on no input where the kernels run.

    %s = sqrt(full([], 64.0))      on the CPU          held: %s      on the GPU
    %d = div(%x, %s)               on a GPU       →    %d = div(%x, %s)

A model that writes `torch.sqrt(torch.tensor(64.0))` has its numbers on the CPU. Each call would compute them there and
copy them, and a CUDA graph cannot be recorded of a program with tensors on the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate
from cuesta.frontend.fx_passes.constant_positions import constants_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter


def hold_scalars(gm: GraphModule) -> None:
    """Replaces numbers on the CPU that depend on no input, where pointwise ops on another device read them."""
    constants = constants_of(gm)
    readers = {node: [u for u in node.users if u not in constants and _is_elsewhere(u)] for node in constants}
    found = {node: users for node, users in readers.items() if users and _is_number(node)}
    if not found:
        return
    write = NodeWriter(gm, "numbers")
    for node, users in found.items():
        try:
            value = evaluate(node, node)
        except NotConstant:
            continue
        with gm.graph.inserting_before(node):
            constant = write.constant(value, users[0].meta["val"].device)
        for user in users:
            user.replace_input_with(node, constant)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _is_number(node: Node) -> bool:
    value: Any = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() == 0 and value.device.type == "cpu"


def _is_elsewhere(user: Node) -> bool:
    """Whether a node is a pointwise op whose result is not on the CPU."""
    value = user.meta.get("val")
    is_pointwise = torch.Tag.pointwise in getattr(user.target, "tags", ())
    return isinstance(value, Tensor) and value.device.type != "cpu" and is_pointwise
