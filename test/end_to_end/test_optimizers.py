"""Optimizers' steps compiled: values as eager's, one launch a parameter, nothing left to ATen.

On a CPU the counts of steps are tensors of their own, and what follows from a count is a kernel of its own where the
parameter is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer, RMSprop
from torch.testing import assert_close

import cuesta

Make = Callable[[Iterable[nn.Parameter]], Optimizer]

OPTIMIZERS: dict[str, Callable[..., Optimizer]] = {
    "sgd": partial(SGD, lr=0.1, weight_decay=0.01),
    "momentum": partial(SGD, lr=0.1, momentum=0.9),
    "nesterov": partial(SGD, lr=0.1, momentum=0.9, nesterov=True, maximize=True),
    "adam": partial(Adam, lr=0.01, eps=1e-3),
    "amsgrad": partial(Adam, lr=0.01, eps=1e-3, amsgrad=True),
    "adamw": partial(AdamW, lr=0.01, eps=1e-3),
    "adamw_tensor_lr": lambda parameters, **form: AdamW(parameters, lr=torch.tensor(0.01), eps=1e-3, **form),
    "rmsprop": partial(RMSprop, lr=0.01, eps=1e-3, momentum=0.9, centered=True),
    "adagrad": partial(Adagrad, lr=0.05),
}
FORMS = [*((name, name != "adamw_tensor_lr") for name in OPTIMIZERS), ("momentum", False), ("adamw", False)]

# Each step starts from the rounding of the one before.
CLOSE: dict[str, float] = {"rtol": 1e-5, "atol": 2e-5}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4, bias=False))


def train(run: Callable[[nn.Module], Callable[[], Any]], wrap: Callable[[Any], Any], steps: int = 3) -> nn.Module:
    """A network after some steps, each `run(network)` after a backward; what `run` returns goes through `wrap`."""
    module = network()
    step = wrap(run(module))
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        module.zero_grad()
        module(torch.randn(4, 8, generator=generator)).square().mean().backward()
        step()
    return module


def check(run: Callable[[nn.Module], Callable[[], Any]], steps: int = 3) -> None:
    expected = train(run, lambda step: step, steps)
    actual = train(run, lambda step: torch.compile(step, backend="cuesta"), steps)
    assert_close(actual.state_dict(), expected.state_dict(), **CLOSE)


def launches() -> list[int]:
    return [graph.launches for graph in cuesta.report().graphs]


@pytest.mark.parametrize(("name", "foreach"), FORMS)
def test_a_step(name: str, foreach: bool, cuesta_only: None) -> None:
    check(lambda module: OPTIMIZERS[name](module.parameters(), foreach=foreach).step)
    parameters = len(list(network().parameters()))
    graphs = cuesta.report().graphs
    assert not [graph.aten_calls for graph in graphs if graph.aten_calls]
    # RMSprop counts its steps apart, Adagrad divides apart; a learning rate that is a tensor is one more.
    each = 2 if name in ("rmsprop", "adagrad") else 1
    assert graphs[-1].launches <= each * parameters + (name == "adamw_tensor_lr"), graphs[-1].kernels


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW, Adagrad])
def test_the_fused_form_is_torchs_own_kernel(kind: type[Optimizer], cuesta_only: None) -> None:
    check(lambda module: kind(module.parameters(), lr=0.01, fused=True).step)  # type: ignore[call-arg]


def test_the_capturable_form_says_which_devices_it_is_for(cuesta_only: None) -> None:
    with pytest.raises(Exception, match="capturable=True"):
        check(lambda module: Adam(module.parameters(), capturable=True).step)


@pytest.mark.parametrize("foreach", [True, False])
def test_clipping_belongs_to_the_step(foreach: bool, cuesta_only: None) -> None:
    def run(module: nn.Module) -> Callable[[], None]:
        optimizer = SGD(module.parameters(), lr=0.1, foreach=foreach)

        def step() -> None:
            nn.utils.clip_grad_norm_(module.parameters(), 0.01, foreach=foreach)
            optimizer.step()

        return step

    check(run)
    assert not [graph for graph in cuesta.report().graphs if graph.aten_calls]


def test_a_schedule_with_a_tensor_needs_no_new_code(cuesta_only: None) -> None:
    def run(module: nn.Module) -> Callable[[], None]:
        optimizer = AdamW(module.parameters(), lr=torch.tensor(0.01), eps=1e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=5)

        def step() -> None:
            optimizer.step()
            schedule.step()

        return step

    check(run, steps=6)
    assert len(launches()) == 1


def test_a_schedule_around_the_step(cuesta_only: None) -> None:
    def trained(compiled: bool) -> Sequence[Tensor]:
        module = network()
        optimizer = SGD(module.parameters(), lr=torch.tensor(0.1), momentum=0.9)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
        step = torch.compile(optimizer.step, backend="cuesta") if compiled else optimizer.step
        for n in range(6):
            optimizer.zero_grad()
            module(torch.full((4, 8), n + 1.0)).square().mean().backward()
            step()
            schedule.step()
        return [p.detach() for p in module.parameters()]

    assert_close(trained(True), trained(False), **CLOSE)
    assert len(launches()) <= 2, "the first step makes the momentum, all others use it"


def test_gradient_scaling_skips_a_step_that_overflowed(cuesta_only: None) -> None:
    def trained(compiled: bool) -> tuple[dict[str, Tensor], float]:
        module = network()
        optimizer = AdamW(module.parameters(), lr=0.01, eps=1e-3)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        run = torch.compile(module, backend="cuesta") if compiled else module
        if compiled:
            optimizer.step = torch.compile(optimizer.step, backend="cuesta")  # type: ignore[method-assign]
        generator = torch.Generator().manual_seed(1)
        for n in range(4):
            x = torch.randn(4, 8, generator=generator)
            optimizer.zero_grad()
            scaler.scale(run(x * float("inf") if n == 2 else x).square().mean()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return module.state_dict(), scaler.get_scale()

    (actual, scale), (expected, wanted) = trained(True), trained(False)
    assert scale == wanted == 512.0
    assert_close(actual, expected, **CLOSE)


def test_a_large_parameter_is_updated_in_its_place(cuesta_only: None) -> None:
    """No copy of 1 MiB: new values go where the old ones were, tile by tile."""
    ours, theirs = (nn.Parameter(torch.linspace(-1, 1, 1 << 18).view(512, 512)) for _ in "ab")
    for parameter in (ours, theirs):
        parameter.grad = torch.linspace(-2, 1, 1 << 18).view(512, 512)
    steps = [Adam([p], lr=0.01).step for p in (ours, theirs)]
    compiled = torch.compile(lambda: steps[0](), backend="cuesta")
    for _ in range(3):
        compiled()
        steps[1]()
    assert_close(ours, theirs)
    (graph,) = cuesta.report().graphs
    assert graph.launches == 2
    assert graph.arena_bytes < 1024
