"""Random numbers (contract, point 9): eager's own under a seed; forward, backward and recomputation agree."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import cuesta


def dropped(x: Tensor) -> Tensor:
    return F.dropout(torch.sin(x), 0.3) * x


def recomputed(x: Tensor) -> Tensor:
    return checkpoint(dropped, x, use_reentrant=False)


def value_and_gradient(f: Callable[[Tensor], Tensor], seed: int = 3) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(200, requires_grad=True)
    torch.manual_seed(seed)
    y = f(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    return y.detach(), gradient


@pytest.mark.parametrize("f", [dropped, recomputed], ids=["saved", "recomputed"])
def test_dropout_is_eagers_in_both_directions(f: Callable[[Tensor], Tensor], cuesta_only: None) -> None:
    compiled = torch.compile(f, backend="cuesta", fullgraph=True)
    assert_close(value_and_gradient(compiled), value_and_gradient(f))
    assert_close(value_and_gradient(compiled, 4), value_and_gradient(f, 4))


def test_recomputation_leaves_the_generator_where_eager_does(cuesta_only: None) -> None:
    for f in (recomputed, torch.compile(recomputed, backend="cuesta")):
        value_and_gradient(f)
        drawn = torch.rand(4)
        if f is recomputed:
            expected = drawn
    assert_close(drawn, expected, rtol=0, atol=0)


def test_every_way_to_draw(cuesta_only: None) -> None:
    def draws(x: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.randint(0, 10, (4,)) + x,
            torch.randperm(5),
            torch.bernoulli(torch.full((4,), 0.5)),
            torch.normal(x, 1.0),
            torch.multinomial(torch.ones(4), 2),
            torch.empty(4).uniform_(2, 3),
            torch.empty(4).exponential_(),
            torch.rand_like(x, dtype=torch.float64),
            F.rrelu(x - 1, training=True),
            F.alpha_dropout(x + 1, 0.5),
            F.gumbel_softmax(x, hard=True),
        )

    x = torch.zeros(4)
    torch.manual_seed(1)
    expected = draws(x)
    torch.manual_seed(1)
    assert_close(torch.compile(draws, backend="cuesta", fullgraph=True)(x), expected)


def test_a_generator_of_ones_own(backend: str) -> None:
    compiled = torch.compile(lambda x, g: x + torch.rand(4, generator=g), backend=backend)
    x = torch.zeros(4)
    drawn = [compiled(x, torch.Generator().manual_seed(seed)) for seed in (5, 5, 6)]
    assert_close(drawn[0], torch.rand(4, generator=torch.Generator().manual_seed(5)))
    assert_close(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_selective_checkpointing(backend: str) -> None:
    def policy(context: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        products = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
        return CheckpointPolicy.MUST_SAVE if op in products else CheckpointPolicy.MUST_RECOMPUTE

    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid())
    context = functools.partial(create_selective_checkpoint_contexts, policy)

    def run(x: Tensor) -> Tensor:
        return checkpoint(module, x, use_reentrant=False, context_fn=context).sum()

    x = torch.randn(4, 8, requires_grad=True)
    actual = torch.autograd.grad(torch.compile(run, backend=backend)(x), (x, *module.parameters()))
    assert_close(actual, torch.autograd.grad(run(x), (x, *module.parameters())))
    if backend == "cuesta":
        (backward,) = [g for g in cuesta.report().as_dict()["graphs"] if g["name"] == "backward"]
        again = {op for kernel in backward["kernels"] for op in kernel["ops"]}
        assert "tanh" in again, "what the policy has recomputed is in the backward's kernels"
