"""The gamma functions of f64, and the incomplete ones of both widths, against mpmath."""

from __future__ import annotations

import math
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


def pairs() -> tuple[Tensor, Tensor]:
    """(a, x) wherever another formula holds, and around x = a, where P and Q are between 0 and 1."""
    random.seed(0)
    found = [(log_uniform(-6, 3), log_uniform(-6, 3)) for _ in range(80)]
    found += [(random.uniform(0, 3), random.uniform(0, 2)) for _ in range(60)]
    found += [(a := random.uniform(60, 130), a * random.uniform(0.65, 1.35)) for _ in range(60)]
    for _ in range(80):
        a = log_uniform(-1, 5)
        found.append((a, max(1e-9, a * (1 + random.gauss(0, 1) / math.sqrt(a)))))
    a, x = torch.tensor(found, dtype=torch.float64).unbind(1)
    return a.contiguous(), x.contiguous()


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_incomplete_gamma_functions(dtype: torch.dtype) -> None:
    torch._dynamo.reset()
    a, x = (v.to(dtype) for v in pairs())
    compiled = torch.compile(
        lambda a, x: (torch.special.gammainc(a, x), torch.special.gammaincc(a, x)), backend="cuesta", fullgraph=True
    )
    lower, upper = compiled(a, x)
    assert [graph["aten_calls"] for graph in cuesta.report().as_dict()["graphs"]] == [[]]
    with mp.workdps(40):
        rows = list(zip(map(mpf, a.tolist()), map(mpf, x.tolist()), strict=True))
        # In f64 a power's rounding counts as often as its exponent is large: 10^-250 is e^-575.
        places = 1 if dtype == torch.float32 else 1000
        assert worst(lower, [mp.gammainc(a, 0, x, regularized=True) for a, x in rows]) < places
        assert worst(upper, [mp.gammainc(a, x, mp.inf, regularized=True) for a, x in rows]) < places


def test_the_ends_are_atens() -> None:
    ends = (math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e-300, 1.0, 2.5, 100.0)
    a, x = (v.flatten() for v in torch.meshgrid(*[torch.tensor(ends, dtype=torch.float64)] * 2, indexing="ij"))
    torch._dynamo.reset()
    for function in (torch.special.gammainc, torch.special.gammaincc):
        compiled = torch.compile(lambda a, x, f=function: f(a, x), backend="cuesta", fullgraph=True)
        torch.testing.assert_close(compiled(a, x), function(a, x), equal_nan=True)


def test_the_gradient_of_the_incomplete_ones() -> None:
    torch._dynamo.reset()
    a = torch.rand(50, dtype=torch.float64) * 5 + 0.1
    x = (torch.rand(50, dtype=torch.float64) * 5 + 0.1).requires_grad_()
    compiled = torch.compile(lambda x: torch.special.gammaincc(a, x), backend="cuesta", fullgraph=True)
    (actual,) = torch.autograd.grad(compiled(x).sum(), x)
    (expected,) = torch.autograd.grad(torch.special.gammaincc(a, x).sum(), x)
    torch.testing.assert_close(actual, expected)
    assert all(not graph["aten_calls"] for graph in cuesta.report().as_dict()["graphs"])
