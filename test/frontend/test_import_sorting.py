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
@pytest.mark.parametrize("name", CASES)
def test_sort(name: str, x: torch.Tensor, matches_eager: Check) -> None:
    assert not matches_eager(CASES[name], x).reasons()


@pytest.mark.parametrize("x", [x for x in OPERANDS.values() if x.dtype != torch.bool])
def test_topk(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: (x.topk(2, 0, largest=False).values, x.topk(3).values), x)
    assert not run.reasons()


@pytest.mark.parametrize("x", [*(x[0] for x in OPERANDS.values() if x.dtype != torch.bool), ODD[1, 0], NONE])
def test_median(x: torch.Tensor, matches_eager: Check) -> None:
    run = matches_eager(lambda x: (x.median(), x.nanmedian(), x[0].median(), x[0].nanmedian()), x)
    assert not run.reasons()


def test_positions_that_a_gradient_needs_are_eagers(capture: Any) -> None:
    x = ODD[0].clone().requires_grad_()
    run = capture.compile(lambda x: (x.sort().values * x).sum())
    run(x).backward()
    assert {"aten.sort.default"} == {op for run in capture.runs for op in run.reasons()}
