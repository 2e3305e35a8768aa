"""Values that depend on no input are made where the kernels run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.constants.moved_constants import move_constants

aten = torch.ops.aten
CPU = torch.device("cpu")


def moved(call: Callable[[Tensor], Tensor], device: str) -> GraphModule:
    """The graph of a call on a tensor of `device`, after the pass."""
    with FakeTensorMode() as mode:
        x = torch.empty(4, 8, device=device)
        gm = make_fx(call)(x)
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            node.meta["val"] = mode.from_tensor(getattr(gm, node.target), static_shapes=True)
    move_constants(gm)
    return gm


def names(gm: GraphModule) -> list[str]:
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def on_cpu(gm: GraphModule) -> list[Node]:
    return [node for node in gm.graph.nodes if isinstance(v := node.meta.get("val"), Tensor) and v.device == CPU]


def scaled(x: Tensor) -> Tensor:
    return x / torch.sqrt(torch.full([], 64.0, device="cpu"))


def hidden(x: Tensor) -> Tensor:
    return x + torch.zeros(4, 8, device="cpu").to(x.device, torch.bool)


def filled(x: Tensor) -> Tensor:
    return aten.copy(x, torch.full([], 3, device="cpu"))


def looked_up(x: Tensor) -> Tensor:
    return aten.index(x, [None, torch.arange(8, device="cpu").flip(0)])


def test_what_is_computed_is_held_on_the_gpu() -> None:
    gm = moved(scaled, "cuda")
    assert names(gm) == ["aten.div.Tensor"]
    (number,) = [node for node in gm.graph.nodes if node.op == "get_attr"]
    assert number.meta["val"].device.type == "cuda" and number.meta["val"].dim() == 0
    gm = moved(looked_up, "cuda")
    assert "aten.flip.default" not in names(gm) and not on_cpu(gm)


@pytest.mark.parametrize(("call", "op"), [(hidden, aten.zeros.default), (filled, aten.full.default)])
def test_what_one_call_makes_is_made_on_the_gpu(call: Callable[[Tensor], Tensor], op: Any) -> None:
    gm = moved(call, "cuda")
    (made,) = [node for node in gm.graph.nodes if node.target is op]
    assert made.kwargs["device"].type == "cuda"
    assert not on_cpu(gm)


@pytest.mark.parametrize("call", [scaled, hidden, filled, looked_up])
def test_on_a_cpu_they_stay(call: Callable[[Tensor], Tensor]) -> None:
    with FakeTensorMode():
        before = names(make_fx(call)(torch.empty(4, 8)))
    assert names(moved(call, "cpu")) == before


def test_random_numbers_and_inputs_of_the_cpu_stay_there() -> None:
    gm = moved(lambda x: x + torch.rand(8, device="cpu").to(x.device), "cuda")
    assert "aten.rand.default" in names(gm) and on_cpu(gm)
