"""Which arguments are parameters and buffers, as AOTAutograd tells of the graphs that it hands over."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cuesta.driver import compile_graph
from cuesta.frontend.capture.static_inputs import static_arguments


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[tuple[int, ...]]]:
    """Kind of graph → the sizes of its static arguments, filled by compiles."""
    found: dict[str, list[tuple[int, ...]]] = {}

    def spy(gm: torch.fx.GraphModule, kind: str) -> list[int]:
        positions = static_arguments(gm, kind)
        placeholders = [n for n in gm.graph.nodes if n.op == "placeholder"]
        found[kind] = sorted(tuple(placeholders[i].meta["val"].shape) for i in positions)
        return positions

    monkeypatch.setattr(compile_graph, "static_arguments", spy)
    torch._dynamo.reset()
    return found


class Scale(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3, 4))
        self.register_buffer("shift", torch.ones(5, 3))

    def forward(self, x: torch.Tensor) -> Any:
        return (x @ self.weight.t()).tanh() * self.shift


def test_inference(seen: dict[str, list[tuple[int, ...]]]) -> None:
    with torch.no_grad():
        torch.compile(Scale(), backend="cuesta")(torch.ones(5, 4))
    assert seen == {"inference": [(3, 4), (5, 3)]}


def test_training(seen: dict[str, list[tuple[int, ...]]]) -> None:
    x = torch.ones(5, 4, requires_grad=True)
    torch.compile(Scale(), backend="cuesta")(x).sum().backward()
    assert seen["forward"] == [(3, 4), (5, 3)]
    # The input, which the backward graph takes as well, comes with every call anew.
    assert set(seen["backward"]) <= {(3, 4), (5, 3)}
    assert seen["backward"]


def test_a_function_has_none(seen: dict[str, list[tuple[int, ...]]]) -> None:
    torch.compile(lambda x: x + 1, backend="cuesta")(torch.ones(4))
    assert seen == {"inference": []}
