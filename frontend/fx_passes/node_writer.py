"""Writes nodes into a graph of ATen ops, each with its traced value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate
from cuesta.torch_private.fake_tensors import FakeTensor, FakeTensorMode, detect_fake_mode, unset_fake_temporarily


class NodeWriter:
    """Adds calls and constants where the graph inserts nodes. The names of the constants contain `topic`."""

    def __init__(self, gm: GraphModule, topic: str) -> None:
        self._gm, self._topic = gm, topic
        self._mode = detect_fake_mode([node.meta.get("val") for node in gm.graph.nodes]) or FakeTensorMode()
        self._held: list[tuple[torch.Tensor, torch.device, Node]] = []

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A call of an op."""
        name = target.overloadpacket.__name__
        node = self._gm.graph.create_node("call_function", target, args, kwargs, name=name)
        own_args, own_kwargs = map_arg((args, kwargs), lambda n: n.meta["val"])
        with self._mode:
            node.meta["val"] = target(*own_args, **own_kwargs)
        return node

    def evaluated(self, node: Node, device: torch.device) -> Node | None:
        """What `node` computes as a tensor that the graph holds on `device`, inserted before the node; None if the node
        depends on an input."""
        try:
            value = evaluate(node, node)
        except NotConstant:
            return None
        with self._gm.graph.inserting_before(node):
            return self.constant(value, device)

    def constant(self, value: torch.Tensor, device: torch.device) -> Node:
        """A tensor that the graph holds on `device`. If this machine has no such device, kernels are made for another
        machine, and the tensor is fake.

        Equal tensors are held once. Passes insert nodes in the graph's order, so that the first of equal tensors is
        before all its users.
        """
        with unset_fake_temporarily():
            for other, place, node in self._held:
                if place == device and other.dtype == value.dtype and torch.equal(other, value):
                    return node
        if device.type == "cpu" or torch.get_device_module(device).is_available():
            with unset_fake_temporarily():
                held = value.to(device).contiguous()
        else:
            with self._mode:
                held = torch.empty(value.shape, dtype=value.dtype, device=device)
        number = len(self._held)
        while hasattr(self._gm, name := f"constant_{self._topic}_{number}"):
            number += 1
        self._gm.register_buffer(name, held, persistent=False)
        node = self._gm.graph.get_attr(name)
        is_fake = isinstance(held, FakeTensor)
        node.meta["val"] = held if is_fake else self._mode.from_tensor(held, static_shapes=True)
        self._held.append((value, device, node))
        return node


def replace_each(
    gm: GraphModule, topic: str, nodes: Sequence[Node], rewrite: Callable[[NodeWriter, Node], Node | None]
) -> None:
    """Replaces each of these nodes of a graph by what `rewrite` writes in front of it. None leaves the node."""
    if not nodes:
        return
    write = NodeWriter(gm, topic)
    for node in nodes:
        with gm.graph.inserting_before(node):
            made = rewrite(write, node)
        if made is not None:
            node.replace_all_uses_with(made)
    gm.graph.eliminate_dead_code()
    gm.recompile()
