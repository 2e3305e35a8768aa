"""bucketize and searchsorted among boundaries: eager's places, for NaN and boundaries out of order too."""

from __future__ import annotations

import math

import pytest
import torch

import cuesta

SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 2.0])
VALUES = torch.cat([torch.randn(113, generator=torch.Generator().manual_seed(0)) * 3, SPECIAL])
BOUNDARIES = {
    "one": torch.tensor([0.0]),
    "a power of two": torch.linspace(-3, 3, 16),
    "equal and special ones": torch.tensor([-math.inf, 0, 0, 0, 1, math.inf, math.nan, math.nan]),
    "out of order": VALUES[:37],
}


@pytest.mark.parametrize("boundaries", BOUNDARIES.values(), ids=BOUNDARIES.keys())
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8], ids=["f32", "uint8"])
def test_places(boundaries: torch.Tensor, dtype: torch.dtype, cuesta_only: None) -> None:
    def places(x: torch.Tensor, boundaries: torch.Tensor) -> list[torch.Tensor]:
        return [
            torch.bucketize(x, boundaries),
            torch.bucketize(x, boundaries, right=True, out_int32=True),
            torch.searchsorted(boundaries, x.reshape(8, 15), side="right"),
            torch.searchsorted(boundaries, 1),
            torch.bucketize(1, boundaries, right=True),
        ]

    numbers = (VALUES, boundaries)
    if dtype == torch.uint8:
        numbers = tuple(t.nan_to_num(7, 7, 7).abs().clamp(0, 100).to(dtype) for t in numbers)
    for got, expected in zip(
        torch.compile(places, backend="cuesta", dynamic=False)(*numbers), places(*numbers), strict=True
    ):
        assert got.dtype == expected.dtype
        assert torch.equal(got, expected)
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)


def test_many_boundaries_are_atens(cuesta_only: None) -> None:
    boundaries = torch.linspace(-3, 3, 5000)
    got = torch.compile(torch.bucketize, backend="cuesta", dynamic=False)(VALUES, boundaries)
    assert torch.equal(got, torch.bucketize(VALUES, boundaries))
    ((call,),) = [graph.aten_calls for graph in cuesta.report().graphs]
    assert "more than 4096 boundaries" in call["reason"]


@pytest.mark.parametrize("number", [0.3, math.nan, True])
def test_place_of_a_number(number: float, cuesta_only: None) -> None:
    boundaries = BOUNDARIES["a power of two"].bfloat16()  # which eager rounds the number to
    got = torch.compile(torch.searchsorted, backend="cuesta", dynamic=False)(boundaries, number)
    assert torch.equal(got, torch.searchsorted(boundaries, number))
    assert not any(graph.aten_calls for graph in cuesta.report().graphs)


def test_a_fraction_among_integers_is_atens(cuesta_only: None) -> None:
    boundaries = torch.arange(9)
    got = torch.compile(torch.searchsorted, backend="cuesta", dynamic=False)(boundaries, 2.5)
    assert torch.equal(got, torch.searchsorted(boundaries, 2.5))
    ((call,),) = [graph.aten_calls for graph in cuesta.report().graphs]
    assert "different dtypes" in call["reason"]
