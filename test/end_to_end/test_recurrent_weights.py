"""Gradients of weights that every step of a loop multiplies by: one product of all steps' factors."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

import cuesta


def loss(network: nn.Module, x: Tensor) -> Tensor:
    states, _ = network(x)
    return states.square().sum()


def gradients(network: nn.Module, x: Tensor, run: object = loss) -> dict[str, Tensor]:
    network.zero_grad()
    run(network, x).backward()  # type: ignore[operator]
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def check(network: nn.Module, x: Tensor, run: object) -> None:
    """Compiled gradients lie as near those of float64 as eager's do."""
    x.requires_grad_()  # or torch hands the whole network to oneDNN
    exact = gradients(copy.deepcopy(network).double(), x.double())
    eager, compiled = gradients(network, x), gradients(network, x, run)
    for name, expected in exact.items():
        scale = expected.abs().max()
        error = {who: ((g[name] - expected).abs().max() / scale).item() for who, g in (("e", eager), ("c", compiled))}
        # Sums of so many terms in f32, in another order.
        assert error["c"] <= 2 * error["e"] + math.sqrt(x.shape[0]) * torch.finfo(torch.float32).eps, (name, error)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_of_recurrent_weights(kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):
        check(kind(48, 64), torch.randn(6, 2, 48), torch.compile(loss, backend="cuesta", fullgraph=True))
    backward = cuesta.report().as_dict()["graphs"][-1]
    calls = sum(call["count"] for call in backward["aten_calls"] if "mm" in call["op"])
    products = sum(kernel["uses"] for kernel in backward["kernels"] if "mm" in kernel["name"])
    # One for what each earlier step gets, one for x, and one for each weight, not one a step.
    assert 0 < calls + products <= 5 + 1 + 2


def test_any_number_of_rows() -> None:
    torch.manual_seed(0)
    network = nn.LSTM(48, 64)
    with torch._dynamo.config.patch(allow_rnn=True):
        run = torch.compile(loss, backend="cuesta", fullgraph=True, dynamic=True)
        for batch in (2, 3, 5):
            check(network, torch.randn(4, batch, 48), run)
