"""Holds numbers that depend on no input where the kernels run.

    %s = sqrt(full([], 64.0))      on the CPU          held: %s      on the GPU
    %d = div(%x, %s)               on a GPU       →    %d = div(%x, %s)

A model that writes `torch.sqrt(torch.tensor(64.0))` has this number on the CPU. Each call of the program would compute
the number there and copy it to the GPU, and a program with tensors on the CPU cannot be recorded as a CUDA graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_passes.constants.constant_positions import constants_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter


def hold_scalars(gm: GraphModule) -> None:
    """Replaces numbers on the CPU that depend on no input, where pointwise ops on another device read them."""
    numbers = [node for node in gm.graph.nodes if _is_number(node)]
    if not numbers:
        return
    constants, write = constants_of(gm), NodeWriter(gm, "numbers")
    for node in numbers:
        readers = [user for user in node.users if user not in constants and _is_elsewhere(user)]
        if node not in constants or not readers:
            continue
        constant = write.evaluated(node, readers[0].meta["val"].device)
        if constant is not None:
            for reader in readers:
                reader.replace_input_with(node, constant)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _is_number(node: Node) -> bool:
    """Whether a node's value is a tensor of no dims on the CPU."""
    value: Any = node.meta.get("val")
    return isinstance(value, Tensor) and value.dim() == 0 and value.device.type == "cpu"


def _is_elsewhere(user: Node) -> bool:
    """Whether a node is a pointwise op whose result is not on the CPU."""
    value = user.meta.get("val")
    is_pointwise = torch.Tag.pointwise in getattr(user.target, "tags", ())
    return isinstance(value, Tensor) and value.device.type != "cpu" and is_pointwise
