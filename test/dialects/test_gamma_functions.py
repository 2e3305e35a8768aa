"""The gamma functions of f64 against mpmath."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from mpmath import mp, mpf  # type: ignore[import-untyped]
from torch import Tensor

import cuesta

Exact = Callable[..., mpf]


def log_uniform(low: float, high: float) -> float:
    return float(10 ** random.uniform(low, high))


def arguments() -> Tensor:
    """Of every size, and dense where the formulas change."""
    random.seed(0)
    everywhere = [log_uniform(-10, 4) for _ in range(60)]
    dense = [random.uniform(0, 12) for _ in range(100)]
    near = [zero + random.uniform(-0.01, 0.01) for zero in (1, 2) for _ in range(20)]
    return torch.tensor([*everywhere, *dense, *near, *(-x for x in dense if x < 9.99)], dtype=torch.float64)


def worst(actual: Tensor, exact: list[mpf], everywhere: float = 0.0) -> float:
    """The largest error in units of the last place, `everywhere` being allowed on top; of what no float holds, none."""
    info = torch.finfo(actual.dtype)
    errors = [
        (abs(mpf(value) - right) - everywhere) / abs(right) / info.eps
        for value, right in zip(actual.tolist(), exact, strict=True)
        if info.tiny < abs(right) < info.max
    ]
    assert len(errors) > 100
    return float(max(errors))


#: name → (function, what it is, places of the last one, error that is allowed beside a zero)
CASES: dict[str, tuple[Callable[[Tensor], Tensor], Exact, float, float]] = {
    "lgamma": (torch.lgamma, lambda x: mp.log(abs(mp.gamma(x))), 4, 2e-15),
    "digamma": (torch.digamma, mp.digamma, 8, 4e-15),
    "polygamma 1": (lambda x: torch.polygamma(1, x), lambda x: mp.polygamma(1, x), 8, 0),
    "polygamma 2": (lambda x: torch.polygamma(2, x), lambda x: mp.polygamma(2, x), 16, 0),
    "polygamma 5": (lambda x: torch.polygamma(5, x), lambda x: mp.polygamma(5, x), 32, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_gamma_functions_of_f64(name: str) -> None:
    function, exact, places, everywhere = CASES[name]
    torch._dynamo.reset()
    x = arguments()
    actual = torch.compile(lambda x: function(x), backend="cuesta", fullgraph=True)(x)
    assert [graph["aten_calls"] for graph in cuesta.report().as_dict()["graphs"]] == [[]]
    with mp.workdps(40):
        assert worst(actual, [exact(mpf(v)) for v in x.tolist()], everywhere) < places
