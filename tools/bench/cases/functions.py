"""Makes the cases of small functions from one line each, with arguments on torch's default device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.bench.cases.case import Case, Function
from cuesta.tools.bench.cases.workload import Workload

Make: TypeAlias = Callable[[], tuple[Tensor, ...]]


def case(name: str, function: Callable[..., Any], make: Make) -> Case:
    """A function with the arguments that `make` returns. If any requires gradients, forward and backward of a loss."""

    def build() -> Function:
        arguments = make()
        return Function(Workload(function, arguments, tuple(x for x in arguments if x.requires_grad)))

    return Case(name, build)


def step(name: str, function: Callable[..., Tensor], make: Make) -> Case:
    """Forward and backward of a function. `make` returns its arguments, and last the gradient of its result."""

    def loss(*arguments: Tensor) -> Tensor:
        return (function(*arguments[:-1]) * arguments[-1]).sum()

    return case(name, loss, make)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Normally distributed numbers."""
    return torch.randn(shape).to(dtype)


def weight(*shape: int) -> Tensor:
    """Normally distributed numbers whose gradient is wanted."""
    return torch.randn(shape, requires_grad=True)


def ids(high: int, *shape: int) -> Tensor:
    """Integers from 0 to `high` - 1."""
    return torch.randint(high, shape)


def mask(*shape: int) -> Tensor:
    """Booleans, half of them true."""
    return torch.rand(shape) < 0.5


def layer_norm_residual(rows: int, columns: int, name: str) -> Case:
    """Layer normalisation of a sum, over rows."""
    return case(
        name,
        lambda x, residual, scale, bias: F.layer_norm(x + residual, (columns,), scale, bias),
        lambda: (normal(rows, columns), normal(rows, columns), normal(columns), normal(columns)),
    )


def cross_entropy(rows: int, classes: int, name: str) -> Case:
    """The mean cross entropy of logits against classes."""
    return case(name, lambda x, y: F.cross_entropy(x, y), lambda: (normal(rows, classes), ids(classes, rows)))
