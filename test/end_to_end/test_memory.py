"""What the plan says a call takes is what torch sees, and a training step frees what it saved as it goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import cuesta
from cuesta.runtime.executable import ARENAS
from cuesta.tools.bench.measuring.memory import measure, predicted_peak


class Block(nn.Module):
    """A transformer's layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.normed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        heads = [t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1)]
        x = x + self.out(F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.normed(x))))


def transformer() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*(Block(256) for _ in range(3))), torch.randn(4, 128, 256)


def perceptron() -> tuple[nn.Module, Tensor]:
    layers = [part for _ in range(6) for part in (nn.Linear(512, 512), nn.Tanh())]
    return nn.Sequential(*layers, nn.LayerNorm(512)), torch.randn(2048, 512)


class Append(nn.Module):
    """Appends columns computed from all the columns before them, as a DenseNet's layers do."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.BatchNorm1d(columns), nn.Linear(columns, 64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.linear(F.relu(self.norm(x)))], 1)


def dense_block() -> tuple[nn.Module, Tensor]:
    return nn.Sequential(*(Append(256 + 64 * i) for i in range(5)), nn.BatchNorm1d(576)), torch.randn(2048, 256)


def in_eval(module: nn.Module, x: Tensor) -> Callable[[], Any]:
    compiled = torch.compile(module.eval(), backend="cuesta", fullgraph=True)

    def call() -> Any:
        with torch.no_grad():
            return compiled(x)

    return call


def in_training(module: nn.Module, x: Tensor) -> Callable[[], Any]:
    compiled = torch.compile(lambda: module(x).square().mean(), backend="cuesta", fullgraph=True)

    def call() -> Any:
        module.zero_grad()
        loss = compiled()
        loss.backward()
        return loss

    return call


def measured(call: Callable[[], Any]) -> int:
    """The peak of a warm call that finds no arena."""
    torch._dynamo.reset()
    for _ in range(2):
        call()
    ARENAS.trim()
    return measure(call).peak


@pytest.mark.parametrize("mode", [in_eval, in_training], ids=["eval", "training"])
@pytest.mark.parametrize("model", [transformer, perceptron, dense_block])
def test_the_predicted_peak_is_the_measured_one(
    model: Callable[[], tuple[nn.Module, Tensor]], mode: Callable[[nn.Module, Tensor], Callable[[], Any]]
) -> None:
    module, x = model()
    peak = measured(mode(module, x))
    graphs = cuesta.report().as_dict()["graphs"]
    assert not any(graph["fallback"] for graph in graphs)
    assert predicted_peak(graphs) == pytest.approx(peak, rel=0.01)


def test_a_retained_graph_keeps_what_it_saved() -> None:
    torch._dynamo.reset()
    module, x = perceptron()
    loss = torch.compile(lambda: module(x).square().mean(), backend="cuesta", fullgraph=True)()
    loss.backward(retain_graph=True)
    once = [parameter.grad.clone() for parameter in module.parameters() if parameter.grad is not None]
    loss.backward()
    twice = [parameter.grad for parameter in module.parameters()]
    torch.testing.assert_close(twice, [2 * g for g in once])
