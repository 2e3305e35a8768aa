"""Reduction import rules: dims in every spelling, accumulation types, variances and their overloads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

aten = torch.ops.aten
Check = Callable[..., Any]

X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
BRAIN, ONE = X.bfloat16(), X[0, 0, 0].clone()
WHOLE = torch.arange(-12, 12).reshape(2, 3, 4)
INPUTS = {"f32": X, "bf16": BRAIN, "int": WHOLE, "int32": WHOLE.int(), "bool": X > 0, "uint8": WHOLE.byte(), "0-d": ONE}
DIMS: dict[str, dict[str, Any]] = {
    "all": {},
    "first": {"dim": 0},
    "last, kept": {"dim": -1, "keepdim": True},
    "two": {"dim": (0, -1)},
    "two, kept": {"dim": (0, 1), "keepdim": True},
    "none named": {"dim": ()},
}


@pytest.mark.parametrize("x", INPUTS.values(), ids=INPUTS.keys())
def test_dims(x: torch.Tensor, matches_eager: Check, accepted: Check) -> None:
    every = (torch.sum, torch.mean, torch.prod, torch.amax, torch.amin, torch.any, torch.all)
    ops = {name: accepted(every, x, **dims) for name, dims in DIMS.items()}
    assert all(ops.values()) or not x.dim()  # of a scalar there are no two dims
    matches_eager(lambda x: {(op.__name__, name): op(x, **DIMS[name]) for name in ops for op in ops[name]}, x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64], ids=str)
def test_dtype(dtype: torch.dtype, matches_eager: Check) -> None:
    matches_eager(lambda x: (x.sum(dtype=dtype), x.prod(1, dtype=dtype), x.cumsum(1, dtype=dtype)), WHOLE)
    matches_eager(lambda x: (x.sum(1, dtype=dtype), x.cumsum(0, dtype=dtype)), X)


SPECIAL = torch.tensor([[1, math.nan, math.nan, 3], [-math.inf] * 4, [2, 2, 1, 1], [math.inf, 0.0, -0.0, math.inf]])


@pytest.mark.parametrize(
    "x", [X, BRAIN, WHOLE, SPECIAL, X[:, :1], X[:1, :, :1]], ids=["f32", "bf16", "int", "special", "1 row", "1 column"]
)
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_and_their_positions(name: str, x: torch.Tensor, matches_eager: Check) -> None:
    extreme, position = getattr(torch, name), getattr(torch, f"arg{name}")
    matches_eager(lambda x: (extreme(x), tuple(extreme(x, 1)), tuple(extreme(x, -1, keepdim=True))), x)
    matches_eager(lambda x: (position(x), position(x, -1), position(x, 0, keepdim=True), position(x, keepdim=True)), x)


@pytest.mark.parametrize("x", [X > 0, X > 10, ONE], ids=["bool", "all false", "0-d"])
def test_extremes_of_other_inputs(x: torch.Tensor, matches_eager: Check) -> None:
    matches_eager(lambda x: (x.max(), tuple(x.max(-1)), tuple(x.min(-1, keepdim=True))), x)


VARIANCES: dict[str, dict[str, Any]] = {
    "all": {},
    "biased": {"unbiased": False},
    "dim": {"dim": 1},
    "dim, kept": {"dim": 1, "keepdim": True},
    "dim, biased": {"dim": 1, "unbiased": False},
    "correction": {"dim": (0, 2), "correction": 2, "keepdim": True},
    "no correction": {"correction": 0},
    "correction by default": {"correction": None},
    "more correction than elements": {"dim": 2, "correction": 10},
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("x", [X, BRAIN], ids=["f32", "bf16"])
@pytest.mark.parametrize("op", [torch.var, torch.std, torch.var_mean], ids=lambda op: op.__name__)
def test_variance(op: Any, x: torch.Tensor, matches_eager: Check) -> None:
    matches_eager(lambda x: {name: op(x, **arguments) for name, arguments in VARIANCES.items()}, x)


def test_variance_overloads(matches_eager: Check) -> None:
    matches_eager(lambda x: (aten.var(x, False), aten.std(x, True), *aten.var_mean(x, False)), X)
    matches_eager(lambda x: (aten.var.dim(x, [1], False, True), aten.std.dim(x, [0], True)), X)
    matches_eager(lambda x: torch.var(x, dim=0, correction=0), ONE)


@pytest.mark.parametrize("x", [X, BRAIN, SPECIAL, SPECIAL.t()], ids=["f32", "bf16", "special", "special columns"])
def test_logsumexp(x: torch.Tensor, matches_eager: Check) -> None:
    matches_eager(lambda x: (x.logsumexp(1), x.logsumexp((0, -1), keepdim=True)), x)


@pytest.mark.parametrize("x", [X, BRAIN, WHOLE, X > 0], ids=["f32", "bf16", "int", "bool"])
def test_cumsum(x: torch.Tensor, matches_eager: Check) -> None:
    matches_eager(lambda x: (x.cumsum(0), x.cumsum(-1)), x)


def test_cumsum_of_a_scalar(matches_eager: Check) -> None:
    matches_eager(lambda x: x.cumsum(0), ONE)


@pytest.mark.parametrize("x", [X, BRAIN, SPECIAL, ONE], ids=["f32", "bf16", "special", "0-d"])
def test_logcumsumexp(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: x.logcumsumexp(0), x)
    assert "aten.call" not in run.ops()


def test_logcumsumexp_along_rows_is_called_on_a_cpu(matches_eager: Check) -> None:
    run = matches_eager(lambda x: x.logcumsumexp(-1), X)
    assert list(run.reasons()) == ["aten.logcumsumexp.default"]
