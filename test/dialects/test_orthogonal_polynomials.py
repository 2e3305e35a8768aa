"""Orthogonal polynomials, compiled, against eager: at the ends, of NaN, of degrees below 0 and many."""

from __future__ import annotations

import pytest
import torch

import cuesta
from cuesta.dialects.cuesta.pointwise_rows import orthogonal_polynomials

NAMES = [row.name.removeprefix("special_") for row in orthogonal_polynomials.ROWS]
POINTS = torch.cat([torch.linspace(-2, 2, 401), torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0])])[:, None]
DEGREES = torch.tensor([-1.0, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 20, 2.7, -torch.inf])


@pytest.mark.parametrize("name", NAMES)
def test_polynomial(name: str) -> None:
    function = getattr(torch.special, name)
    compiled = torch.compile(function, backend="cuesta")
    for dtype, tolerance in ((torch.float32, 3e-4), (torch.float64, 1e-9)):
        x, n = POINTS.to(dtype), DEGREES.to(dtype)
        # Next to an end of [0, 1], eager and f32 itself are that far off.
        torch.testing.assert_close(compiled(x, n), function(x, n), rtol=tolerance, atol=tolerance, equal_nan=True)
        assert not cuesta.report().graphs[-1].aten_calls


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_hermites_of_large_degrees_are_nan(dtype: torch.dtype) -> None:
    x, n = torch.ones(3, dtype=dtype), torch.tensor([128, 129, 513], dtype=dtype)
    function = torch.special.hermite_polynomial_he
    actual = torch.compile(function, backend="cuesta")(x, n)
    assert torch.equal(actual.isnan(), function(x, n).isnan())


def test_a_gpu_calls_them() -> None:
    run = torch.compile(torch.special.legendre_polynomial_p, backend="cuesta", options={"target": "tt"})
    run(torch.ones(4), torch.ones(4))
    (call,) = cuesta.report().graphs[-1].aten_calls
    assert call["reason"] == "kernels for GPUs have no loop whose end the operands say"
