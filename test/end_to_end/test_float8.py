"""Floats of 8 bits: kernels convert them, views view them, products by weights of them read them as they are stored."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

import cuesta
from cuesta.passes.libraries.products import panels

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
WIDE = (torch.float32, torch.float64, torch.bfloat16, torch.float16)


def compiled(f: Any, *arguments: Tensor, target: str = "cpu") -> Any:
    """The results of a function, of which no op was called in ATen."""
    options = {"target": target, "cache": False}
    results = torch.compile(f, backend="cuesta", fullgraph=True, dynamic=False, options=options)(*arguments)
    (graph,) = cuesta.report().graphs
    assert not graph.aten_calls, cuesta.report()
    return results


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_all_numbers(dtype: torch.dtype, target: str) -> None:
    """Every byte: numbers below the normal ones, both zeros, infinities and NaN."""
    x = torch.arange(256, dtype=torch.uint8).view(dtype)

    def widened(x: Tensor) -> list[Tensor]:
        return [x.to(wide) for wide in WIDE]

    for actual, expected in zip(compiled(widened, x, target=target), widened(x), strict=True):
        assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
        numbers = ~expected.isnan()
        assert torch.equal(actual.signbit()[numbers], expected.signbit()[numbers])


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("wide", [*WIDE, torch.int64])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_rounding(dtype: torch.dtype, wide: torch.dtype, target: str) -> None:
    """Every number, what lies halfway between two and a little beside it, what is beyond the largest or not finite."""
    numbers = torch.arange(256, dtype=torch.uint8).view(dtype).double()
    ordered = numbers[numbers.isfinite()].unique()
    between = (ordered[1:] + ordered[:-1]) / 2
    largest = ordered.max()
    beyond = largest * torch.tensor([1.02, 1.03, 1.04, 1.06, 1.07, 1.08, 1.12, 1.13, 1.14, 1.2, 9, 1e30, math.inf])
    x = torch.cat([ordered, between, between * 0.999, between * 1.001, beyond, -beyond, torch.tensor([math.nan])])
    x = x.to(wide) if wide.is_floating_point else x[x.isfinite()].clamp(-1e6, 1e6).to(wide)
    expected = x.to(dtype)
    assert torch.equal(compiled(lambda x: x.to(dtype), x, target=target).view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("dtype", FLOAT8)
def test_views(dtype: torch.dtype) -> None:
    x = torch.randn(48).to(dtype)

    def views(x: Tensor) -> tuple[Tensor, ...]:
        turned = x.view(6, 8).t()
        return turned, turned.float() + 1, x[3:9].unsqueeze(0), x[::5].bfloat16()

    for actual, expected in zip(compiled(views, x), views(x), strict=True):
        assert actual.dtype == expected.dtype
        assert actual.stride() == expected.stride()
        assert torch.equal(actual.float(), expected.float())


@pytest.mark.parametrize("target", ["cpu", "tt"])
@pytest.mark.parametrize("rows", [1, 4, 16, 40])
@pytest.mark.parametrize("dtype", FLOAT8)
def test_weights(dtype: torch.dtype, rows: int, target: str) -> None:
    """As users write it: no further from f64 than twice eager's error."""
    generator = torch.Generator().manual_seed(rows)
    weight = torch.randn(512, 256, generator=generator).to(dtype)
    scale = torch.rand(512, 1, generator=generator).bfloat16()
    x = torch.randn(rows, 256, generator=generator).bfloat16()

    def multiply(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
        return F.silu(F.linear(x, weight.to(x.dtype) * scale))

    options = {"target": target, "cache": False}
    actual = torch.compile(multiply, backend="cuesta", fullgraph=True, dynamic=False, options=options)(x, weight, scale)
    exact = multiply(x.double(), weight, scale.double())
    eager = multiply(x, weight, scale)
    assert (actual - exact).abs().max() <= 2 * (eager - exact).abs().max()
    (graph,) = cuesta.report().graphs
    moved = sum(kernel["bytes"] for kernel in graph.kernels)
    if (rows == 1 and target == "tt") or (rows in (1, 4) and target == "cpu" and panels.has_vectors()):
        assert not graph.aten_calls
        assert moved < 2 * weight.nbytes  # the wide weight is not written


def test_what_is_no_conversion_stays_atens() -> None:
    """Eager defines few ops on floats of 8 bits; what kernels do not compute is called."""

    def both(x: Tensor) -> Tensor:
        return torch.cat([x.to(torch.float8_e5m2), x.to(torch.float8_e5m2)]).float()

    x = torch.randn(8)
    actual = torch.compile(both, backend="cuesta", fullgraph=True)(x)
    assert torch.equal(actual, both(x))
    (graph,) = cuesta.report().graphs
    assert [call["op"] for call in graph.aten_calls] == ["aten.cat.default"]
