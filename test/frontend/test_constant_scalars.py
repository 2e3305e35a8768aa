"""Numbers that depend on no input are held where the kernels run."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule, Node

from cuesta.frontend.fx_passes.constants.constant_scalars import hold_scalars

aten = torch.ops.aten


def scaled(device: str) -> tuple[GraphModule, Node]:
    """x / sqrt(64), where x is on `device` and the number on the CPU; the graph and the division."""
    mode, graph = FakeTensorMode(), Graph()
    with mode:
        x = graph.placeholder("x")
        x.meta["val"] = torch.empty(4, device=device)
        number = graph.call_function(aten.full.default, ([], 64.0))
        number.meta["val"] = torch.empty(())
        root = graph.call_function(aten.sqrt.default, (number,))
        root.meta["val"] = torch.empty(())
        divided = graph.call_function(aten.div.Tensor, (x, root))
        divided.meta["val"] = torch.empty(4, device=device)
    graph.output((divided,))
    return GraphModule(torch.nn.Module(), graph), divided


def test_a_gpu_s_numbers_are_held_there() -> None:
    gm, divided = scaled("cuda")
    hold_scalars(gm)
    number = divided.args[1]
    assert isinstance(number, Node) and number.op == "get_attr"
    assert number.meta["val"].device.type == "cuda" and number.meta["val"].dim() == 0
    assert [node.op for node in gm.graph.nodes] == ["placeholder", "get_attr", "call_function", "output"]


def test_a_cpu_s_numbers_stay() -> None:
    gm, _ = scaled("cpu")
    before = [node.name for node in gm.graph.nodes]
    hold_scalars(gm)
    assert [node.name for node in gm.graph.nodes] == before
