"""Makes values that depend on no input where the kernels run.

    %z = full([64, 16, 16], 0)             on the CPU          %z = full([64, 16, 16], 0)   on the GPU
    %m = _to_copy(%z, device=GPU)                          →   %m = _to_copy(%z, device=GPU)
    %s = sqrt(full([], 64.0))              on the CPU          held: %s                     on the GPU
    %d = div(%x, %s)                       on the GPU          %d = div(%x, %s)

A model that writes `torch.sqrt(torch.tensor(64.0))`, `mask[:8] = 3` or `torch.zeros(n).to(x.device)` has these values
on the CPU. Each call of the program would compute them there and copy them to the GPU, and a program with tensors on
the CPU cannot be recorded as a CUDA graph.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_passes.constants.found_constants import constants_of, is_constructor
from cuesta.frontend.fx_passes.node_writer import NodeWriter

_CPU = torch.device("cpu")


def move_constants(gm: GraphModule) -> None:
    """Replaces values on the CPU that depend on no input, where ops on another device read them. What one call makes
    from sizes and numbers is made on that device; other values are computed now, and the graph holds them there."""
    crossing = {node: readers for node in gm.graph.nodes if (readers := _readers_elsewhere(node))}
    if not crossing:
        return
    constants, write = constants_of(gm), NodeWriter(gm, "moved")
    for node, readers in crossing.items():
        for device in dict.fromkeys(readers.values()):
            moved = _moved(node, device, write, node in constants)
            for reader in [reader for reader, place in readers.items() if place == device]:
                if moved is not None:
                    reader.replace_input_with(node, moved)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _moved(node: Node, device: torch.device, write: NodeWriter, is_constant: bool) -> Node | None:
    """The node's value on a device; None if it depends on an input, or is too large to be held."""
    if is_constructor(node) and not node.all_input_nodes and "device" in node.kwargs:
        with node.graph.inserting_before(node):
            kwargs = {name: value for name, value in node.kwargs.items() if name != "pin_memory"}
            return write.call(node.target, *node.args, **{**kwargs, "device": device})
    return write.evaluated(node, device) if is_constant else None


def _readers_elsewhere(node: Node) -> dict[Node, torch.device]:
    """The ops that read a tensor of the CPU and give one on another device → that device."""
    if _device(node) != _CPU:
        return {}
    devices = {user: _device(user) for user in node.users}
    return {user: device for user, device in devices.items() if device not in (None, _CPU)}


def _device(node: Node) -> torch.device | None:
    """The device of a node's value. None if that is no tensor."""
    value = node.meta.get("val")
    return value.device if isinstance(value, Tensor) else None
