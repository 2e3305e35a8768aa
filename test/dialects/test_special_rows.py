"""The rows that approximate special functions, compiled, against f64: no further off than a few places of f32."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import cuesta

Function = Callable[[torch.Tensor], torch.Tensor]
special = torch.special

#: Of every size, dense where the formulas change.
POSITIVE = torch.cat(
    [torch.logspace(-30, 4, 4000), torch.linspace(0.001, 12, 12001), 1 + torch.linspace(-0.01, 0.01, 501)]
)
EVERYWHERE = torch.cat([POSITIVE, -POSITIVE[POSITIVE < 9]])
NEGATIVE = torch.cat([POSITIVE, -torch.linspace(0.0111, 9.9887, 4001)])
INSIDE = torch.cat(
    [torch.linspace(-0.99999, 0.99999, 8001), 1 - torch.logspace(-7, -1, 500), torch.logspace(-30, -1, 99)]
)
SHARES = torch.cat([torch.linspace(0.0001, 0.9999, 8001), torch.logspace(-37, -1, 999)])

#: name → (function, arguments, error in units of the last place, error that is allowed everywhere)
CASES: dict[str, tuple[Function, torch.Tensor, float, float]] = {
    # Left of 0 lgamma has zeros where two logarithms cancel.
    "lgamma": (torch.lgamma, NEGATIVE, 4, 1e-6),
    "lgamma near its zeros": (torch.lgamma, torch.cat([1 + INSIDE / 2, 2 + INSIDE / 2]), 12, 0),
    "digamma": (torch.digamma, NEGATIVE, 8, 1e-5),
    "polygamma 1": (lambda x: torch.polygamma(1, x), NEGATIVE, 16, 0),
    "polygamma 2": (lambda x: torch.polygamma(2, x), NEGATIVE, 16, 1e-5),
    "polygamma 3": (lambda x: torch.polygamma(3, x), NEGATIVE, 16, 0),
    "polygamma 6": (lambda x: torch.polygamma(6, x), POSITIVE[POSITIVE > 1e-3], 16, 0),
    "erfinv": (lambda x: torch.erfinv(x.half()).float(), INSIDE, 8200, 0),
    "ndtri": (special.ndtri, SHARES, 8, 0),
    "erfcx": (special.erfcx, EVERYWHERE, 16, 0),
}


def every(*xs: torch.Tensor) -> list[torch.Tensor]:
    return [case[0](x) for case, x in zip(CASES.values(), xs, strict=True)]


@pytest.fixture(scope="module")
def compiled() -> dict[str, torch.Tensor]:
    """What one program gives for all cases."""
    torch._dynamo.reset()

    results = torch.compile(every, backend="cuesta", fullgraph=True)(*(case[1] for case in CASES.values()))
    return dict(zip(CASES, results, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_accuracy(name: str, compiled: dict[str, torch.Tensor]) -> None:
    function, x, places, everywhere = CASES[name]
    exact = function(x.double())
    there = (exact.abs() > 1e-37) & (exact.abs() < 3e38)
    assert int(there.sum()) > 4000
    error = (compiled[name].double() - exact).abs()[there]
    allowed = exact.abs()[there] * places * 2.0**-24 + everywhere
    worst = (error / allowed).argmax()
    assert error[worst] <= allowed[worst], f"at {x[there][worst]}: {error[worst] / allowed[worst]:.2f} of what may be"


def test_every_case_is_compiled() -> None:
    torch._dynamo.reset()
    audit = cuesta.audit(every, *(case[1] for case in CASES.values()))
    assert [graph.calls for graph in audit.graphs] == [0]
