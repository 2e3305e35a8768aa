"""Compiling takes time in proportion to a graph: counted in calls of Python functions, which no other work disturbs.

`python -m cuesta.tools.bench.growth` measures seconds, of layers and of graphs of up to 10,000 ops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cuesta
from cuesta.driver import compile_graph

pytestmark = pytest.mark.usefixtures("cuesta_only")


class Layer(nn.Module):
    """A transformer's, of the smallest sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        attended = nn.functional.scaled_dot_product_attention(x, x, x) + x
        return self.down(nn.functional.gelu(self.up(self.norm(attended)))) + attended


def chain(ops: int) -> Callable[[Tensor], Tensor]:
    def f(x: Tensor) -> Tensor:
        for n in range(ops // 4):
            x = torch.sin(x) * 0.5 + x
            x = x - x.mean(-1, keepdim=True) if n % 10 == 9 else x.relu()
        return x

    return f


def calls_of(function: Callable[[Callable[..., Any]], Any], subject: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many calls of Python functions cuesta's own part takes of compiling `subject` as `function` calls it."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    compile = compile_graph.compile_graph

    def counted(*arguments: Any, **keywords: Any) -> Any:
        before = sys.getprofile()
        sys.setprofile(note)
        try:
            return compile(*arguments, **keywords)
        finally:
            sys.setprofile(before)

    torch._dynamo.reset()
    with monkeypatch.context() as patch:
        patch.setattr(compile_graph, "compile_graph", counted)
        # LLVM's part is not counted, so it need not take long.
        function(torch.compile(subject, backend="cuesta", fullgraph=True, options={"opt_level": 0}))
    return count


def growth(counts: list[int]) -> float:
    """How much more the last step takes than the one before it; 2 where sizes double and time is in proportion."""
    small, middle, large = counts
    return (large - middle) / (middle - small)


@pytest.mark.parametrize("training", [False, True])
def test_equal_layers(training: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 4, 8, 16)

    def run(layers: Callable[..., Tensor]) -> None:
        y = layers(x).sum()
        if training:
            y.backward()

    counts = []
    for layers in (1, 3, 6, 12):  # the first also makes what all compiles share
        module = nn.Sequential(*(Layer() for _ in range(layers))).requires_grad_(training)
        counts.append(calls_of(run, module, monkeypatch))
    assert growth(counts[1:]) < 2.3, counts


def test_a_chain_of_ops(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [calls_of(lambda f: f(torch.randn(16, 64)), chain(n), monkeypatch) for n in (40, 100, 200, 400)]
    assert growth(counts[1:]) < 2.3, counts
    assert not cuesta.report().graphs[-1].aten_calls
