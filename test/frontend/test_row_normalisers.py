"""A loss's gradients compute the logarithms of probabilities anew, from narrow logits and two numbers of each row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import cuesta

ROWS, CLASSES = 24, 2048


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits.float(), targets, ignore_index=3)


def inputs(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return (50 * torch.randn(ROWS, CLASSES)).to(dtype), torch.randint(8, (ROWS,))


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients(dtype: torch.dtype, target: str) -> None:
    logits, targets = inputs(dtype)

    def gradient(function: object, x: Tensor) -> Tensor:
        assert callable(function)
        given = x.clone().requires_grad_()
        (found,) = torch.autograd.grad(function(given * 2, targets), [given])
        return found

    options = {} if target == "cpu" else {"target": target}
    actual = gradient(torch.compile(loss, backend="cuesta", options=options, dynamic=False), logits)
    exact = gradient(lambda x, y: torch.nn.functional.cross_entropy(x, y, ignore_index=3), logits.double())
    eager = gradient(loss, logits)
    assert (actual - exact).norm() <= 2 * (eager - exact).norm()


@pytest.mark.parametrize("target", ["cpu", "tt"])
def test_narrow_results_are_rounded_once(target: str) -> None:
    torch.manual_seed(0)
    x, weights = torch.randn(ROWS, 64).mul(2).bfloat16(), torch.randn(ROWS, 64).bfloat16()
    options = {} if target == "cpu" else {"target": target}
    compiled = torch.compile(lambda x: x.log_softmax(-1), backend="cuesta", options=options, dynamic=False)

    def errors(function: object) -> list[float]:
        assert callable(function)
        found, exact = [], []
        for f, given, into in ((function, x, found), (lambda x: x.log_softmax(-1), x.double(), exact)):
            given = given.clone().requires_grad_()
            y = f(given)
            y.backward(weights.to(y.dtype))
            into += [y.detach(), given.grad]
        return [float((a.double() - b).norm()) for a, b in zip(found, exact, strict=True)]

    for ours, eager in zip(errors(compiled), errors(lambda x: x.log_softmax(-1)), strict=True):
        assert ours <= 1.05 * eager


def test_gradients_of_a_large_vocabulary() -> None:
    """One kernel computes them from the logits: no gradients by log-probabilities are written before it."""
    torch.manual_seed(0)
    logits, targets = (50 * torch.randn(4, 70000)).bfloat16(), torch.tensor([0, 3, 69999, 5])
    given = logits.clone().requires_grad_()
    compiled = torch.compile(loss, backend="cuesta", options={"target": "tt"}, dynamic=False)
    (actual,) = torch.autograd.grad(compiled(given, targets), [given])
    backward = cuesta.report().graphs[-1]
    assert sum(kernel["bytes"] > logits.nbytes for kernel in backward.kernels) == 1
    (eager,) = torch.autograd.grad(loss(given, targets), [given])
    assert torch.allclose(actual, eager, rtol=0.02, atol=1e-6)


def test_narrow_logits_are_saved() -> None:
    weight = torch.randn(CLASSES, 64, requires_grad=True)

    def step(x: Tensor, targets: Tensor) -> Tensor:
        return loss(x.bfloat16() @ weight.bfloat16().t(), targets)

    _, targets = inputs(torch.bfloat16)
    torch.compile(step, backend="cuesta", dynamic=False)(torch.randn(ROWS, 64), targets).backward()
    forward, _ = cuesta.report().graphs[-2:]
    assert forward.name == "forward"
    # Logits in two bytes; what is left is small. Logarithms of probabilities took four bytes each.
    assert forward.kept_bytes < 3 * ROWS * CLASSES


def test_a_row_of_infinities_is_nan_as_in_eager() -> None:
    logits = torch.zeros(2, 16)
    logits[1] = -torch.inf
    logits.requires_grad_()
    targets = torch.tensor([0, 1])
    actual = torch.compile(loss, backend="cuesta")(logits, targets)
    assert actual.isnan() and loss(logits, targets).isnan()
