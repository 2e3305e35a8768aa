"""Sorts, medians and running extremes as imported, against eager: ties, NaN, zeros with a sign."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

Check = Callable[..., Any]

ROWS = torch.randn((5, 7, 6), generator=torch.Generator().manual_seed(0))
#: Many equal numbers, zeros of both signs, NaN and infinities.
ODD = (ROWS * 2).round()
ODD[1, 2:4] = math.nan
ODD[2, 0, :3] = torch.tensor([math.inf, -math.inf, math.nan])
SCALAR = torch.tensor(3.0)
NONE = torch.full((3, 4), math.nan)
OPERANDS = {"f32": ROWS, "odd": ODD, "bf16": ODD.bfloat16(), "i64": (ROWS * 2).long(), "bool": ROWS > 0}

CASES: dict[str, Callable[[torch.Tensor], Any]] = {
    "sort": lambda x: (x.sort(stable=True), x.sort(stable=True, dim=0, descending=True)),
    "argsort": lambda x: torch.argsort(x, dim=1, stable=True, descending=True),
    "values alone": lambda x: (x.sort(1).values, torch.msort(x)),
    "cummax": lambda x: (x.cummax(0), x.cummin(1)),
    "of a number": lambda x: (x[0, 0, 0].sort(stable=True), x[0, 0, 0].cummax(0)),
}


@pytest.mark.parametrize("x", OPERANDS.values(), ids=OPERANDS.keys())
def test_sort(x: torch.Tensor, matches_eager: Check) -> None:
    assert not matches_eager(lambda x: {name: case(x) for name, case in CASES.items()}, x).reasons()


@pytest.mark.parametrize("x", [x for x in OPERANDS.values() if x.dtype != torch.bool])
def test_topk(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: (x.topk(2, 0, largest=False).values, x.topk(3).values), x)
    assert not run.reasons()


@pytest.mark.parametrize("x", [*(x[0] for x in OPERANDS.values() if x.dtype != torch.bool), ODD[1, 0], NONE])
def test_median(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: (x.median(), x.nanmedian(), x[0].median(), x[0].nanmedian()), x)
    assert not run.reasons()


def test_one_of_each_row(matches_eager: Check) -> None:
    def several(x: torch.Tensor) -> Any:
        middles = (*x.median(1), *x.nanmedian(0, keepdim=True)) if x.is_floating_point() else x.median(1)
        return *x.kthvalue(3, 1), *x.kthvalue(2, keepdim=True), *middles, *x.mode(1), *x.mode(0, True)

    for x in (ROWS, torch.randperm(210).reshape(5, 7, 6)):  # no two are equal
        assert not matches_eager(several, x).reasons()
    assert not matches_eager(lambda x: (x.kthvalue(1), x.median(0), x.mode(0), x.topk(1)), SCALAR).reasons()


@pytest.mark.parametrize("x", OPERANDS.values(), ids=OPERANDS.keys())
def test_values_of_each_row(x: torch.Tensor, matches_eager: Check) -> None:
    def several(x: torch.Tensor) -> Any:
        ordered = () if x.dtype == torch.bool else (x.kthvalue(2, 1).values, x.median(1).values)
        # Of NaN eager's mode is any.
        return *ordered, x.masked_fill(x.isnan(), 0).mode(1).values

    assert not matches_eager(several, x).reasons()


def test_a_mode_of_nan(capture: Any) -> None:
    nan = math.nan
    x = torch.tensor([[nan, nan, 2, 1], [nan, nan, nan, nan], [nan, nan, 1, 1], [math.inf, nan, 3, math.inf]])
    values, positions = capture.compile(lambda x: x.mode(1))(x)
    torch.testing.assert_close(values, torch.tensor([nan, nan, 1, math.inf]), equal_nan=True)
    torch.testing.assert_close(x.gather(1, positions.unsqueeze(1)).squeeze(1), values, equal_nan=True)


@pytest.mark.parametrize("name", ["sort", "argsort", "topk", "kthvalue", "median"])
def test_positions_are_of_what_eager_has(name: str, capture: Any) -> None:
    """Of equal numbers any: those that are there, each once."""
    calls: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "sort": lambda x: x.sort(1).indices,
        "argsort": lambda x: x.argsort(1, descending=True),
        "topk": lambda x: x.topk(4, 1).indices,
        "kthvalue": lambda x: x.kthvalue(3, 1, True).indices,
        "median": lambda x: x.median(1, True).indices,
    }
    mine = capture.compile(calls[name])(ODD)
    torch.testing.assert_close(ODD.gather(1, mine), ODD.gather(1, calls[name](ODD)), equal_nan=True)
    assert (mine.sort(1).values.diff(dim=1) > 0).all()
    assert not capture.run.reasons()


def test_gradients_go_to_what_was_chosen(capture: Any) -> None:
    x = ROWS[0].clone().requires_grad_()

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return (x.sort().values * x).sum() + (x.topk(2, 0).values * 2).sum() + x.kthvalue(3, 0).values.square().sum()

    (mine,) = torch.autograd.grad(capture.compile(chosen)(x), x)
    torch.testing.assert_close(mine, torch.autograd.grad(chosen(x), x)[0])
    assert not {op for run in capture.runs for op in run.reasons()}


def test_long_rows_are_atens(capture: Any) -> None:
    capture.compile(lambda x: x.sort().indices)(torch.randn(2, 65))
    assert list(capture.run.reasons()) == ["aten.sort.default"]
