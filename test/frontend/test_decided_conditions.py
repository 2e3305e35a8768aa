"""Choices whose conditions are the same everywhere, whatever the inputs are, become one of their branches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.constants.decided_conditions import decide_conditions

aten = torch.ops.aten
LOW = torch.finfo(torch.float32).min


def decided(function: Callable[..., object], *given: Tensor) -> tuple[GraphModule, list[str]]:
    """The graph of a function after the pass, which computes what it did before; and its ops."""
    gm = make_fx(function, tracing_mode="fake")(*given)
    before = gm(*given)
    decide_conditions(gm)
    torch.testing.assert_close(gm(*given), before)
    return gm, [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]


def rows() -> Tensor:
    return torch.arange(8)[:, None]


CHOICES: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "true": (lambda x: torch.where(rows() + 0 >= 0, x, LOW) * 2, True),
    "false": (lambda x: torch.where(rows() > 7, LOW, x) * 2, True),
    "expanded": (lambda x: torch.where((rows() >= 0).expand(4, 8, 8), x, LOW) * 2, True),
    "of another type": (lambda x: torch.where(rows() >= 0, x.half(), x) * 2, True),
    "viewed": (lambda x: torch.where((rows() >= 0).expand(4, 8, 8), x, LOW).view(4, 64) * 2, True),
    "returned": (lambda x: torch.where(rows() >= 0, x, LOW), False),
    "returned as a view": (lambda x: torch.where(rows() >= 0, x, LOW)[1], False),
    "both": (lambda x: torch.where(rows() >= torch.arange(8), x, LOW) * 2, False),
    "of an input": (lambda x: torch.where(x > 0, x, LOW) * 2, False),
    "of random numbers": (lambda x: torch.where(torch.rand(8, 8) >= 0, x, LOW) * 2, False),
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_choice_that_constants_decide(name: str) -> None:
    function, is_decided = CHOICES[name]
    if name == "of random numbers":
        gm = make_fx(function, tracing_mode="fake")(torch.randn(8, 8))
        decide_conditions(gm)
        ops = [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    else:
        _, ops = decided(function, torch.randn(8, 8))
    assert ("where.self" in ops) is not is_decided


def test_conditions_that_are_joined_to_a_decided_one() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.where(((rows() >= 0) & (x > 0)) | (rows() < 0), x, 0.0)

    _, ops = decided(function, torch.randn(8, 8))
    assert ops.count("gt.Scalar") == 1 and not {"bitwise_and.Tensor", "bitwise_or.Tensor", "ge.Scalar"} & {*ops}


def test_a_number_on_another_device_stays_where_it_is() -> None:
    mode, graph = FakeTensorMode(), Graph()
    with mode:
        x = graph.placeholder("x")
        x.meta["val"] = torch.empty(4, device="cuda")
        number = graph.call_function(aten.scalar_tensor.default, (0.0,))
        number.meta["val"] = torch.empty(())
        hides = graph.call_function(aten.full.default, ([4], False), {"device": torch.device("cuda")})
        hides.meta["val"] = torch.empty(4, dtype=torch.bool, device="cuda")
        chosen = graph.call_function(aten.where.self, (hides, x, number))
        chosen.meta["val"] = torch.empty(4, device="cuda")
        doubled = graph.call_function(aten.mul.Tensor, (chosen, 2))
        doubled.meta["val"] = torch.empty(4, device="cuda")
    graph.output((doubled,))
    gm = GraphModule(torch.nn.Module(), graph)
    decide_conditions(gm)
    assert doubled.args[0] is chosen
