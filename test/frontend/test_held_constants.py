"""Values that depend on no input, and that kernels of their own would compute, are computed while compiling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.constants.held_constants import hold_constants

aten = torch.ops.aten
X = torch.arange(64.0).view(8, 8)


def held(call: Callable[[Tensor], Tensor]) -> GraphModule:
    gm = make_fx(call, tracing_mode="fake")(X)
    hold_constants(gm)
    torch.testing.assert_close(gm(X), call(X))
    return gm


def names(gm: GraphModule) -> list[str]:
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def window_mask(x: Tensor) -> Tensor:
    """The mask of shifted windows, as image models write it."""
    windows = aten.new_zeros(x, [8, 8])
    for n, (rows, columns) in enumerate([(0, 0), (0, 4), (4, 0), (4, 4)]):
        part = aten.slice(aten.slice(windows, 0, rows, rows + 4), 1, columns, columns + 4)
        part = aten.slice_scatter(aten.slice(windows, 0, rows, rows + 4), aten.add(part, n), 1, columns, columns + 4)
        windows = aten.slice_scatter(windows, part, 0, rows, rows + 4)
    return x + windows.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(8, 8)


def positions(x: Tensor) -> Tensor:
    return x + torch.ones(8, 8).cumsum(1).unsqueeze(0).sin()


@pytest.mark.parametrize("call", [window_mask, positions])
def test_what_takes_kernels_of_its_own_is_held(call: Callable[[Tensor], Tensor]) -> None:
    assert set(names(held(call))) <= {"aten.add.Tensor", "aten.view.default", "aten._unsafe_view.default"}


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + torch.arange(8).sin(),
        lambda x: x.masked_fill(torch.ones(8, 8, dtype=torch.bool).triu(1), -1.0),
        lambda x: x + torch.zeros(8, 1).expand(8, 8),
        lambda x: x.cumsum(1),
    ],
)
def test_what_its_reader_computes_stays(call: Callable[[Tensor], Tensor]) -> None:
    gm = held(call)
    assert not [node for node in gm.graph.nodes if node.op == "get_attr"]


def test_what_the_graph_returns_is_made_by_each_call() -> None:
    gm = held(lambda x: torch.ones(8).cumsum(0).view(2, 4))
    assert "aten.cumsum.default" in names(gm)
