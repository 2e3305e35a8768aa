"""Import rules of pools whose windows begin at random places."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

aten = torch.ops.aten
Check = Callable[..., Any]


def random(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes, generator=torch.Generator().manual_seed(sum(sizes)))


IMAGE, VOLUME = random(2, 3, 13, 11) - 0.5, random(1, 2, 6, 9, 8) - 0.5
#: Rows of -inf, of equal numbers and with several NaN.
IMAGE[0, 0] = -math.inf
IMAGE[0, 1] = 1
IMAGE[0, 2, 2:7, 3:7] = math.nan
#: The ends of [0, 1) too.
PLACES = random(2, 3, 2)
PLACES[1] = torch.tensor([[0, 0.5], [1 - 2.0**-24, 0], [0.999, 1 - 2.0**-24]])

CASES: dict[str, tuple[torch.Tensor, list[int], list[int], torch.Tensor]] = {
    "image": (IMAGE, [3, 2], [5, 7], PLACES),
    "one image": (IMAGE[0], [2, 2], [4, 6], PLACES[1:]),
    "one window": (IMAGE, [3, 3], [1, 4], PLACES),
    "all of it": (IMAGE, [1, 1], [13, 11], PLACES),
    "in f64": (IMAGE.double(), [2, 3], [5, 4], PLACES.double()),
    "in bf16": (IMAGE.bfloat16(), [3, 2], [6, 5], PLACES.clamp(max=0.98).bfloat16()),
    "in f16": (IMAGE.half(), [3, 2], [6, 5], PLACES.clamp(max=0.99).half()),
    "volume": (VOLUME, [2, 3, 2], [3, 4, 5], random(1, 2, 3)),
    "one volume": (VOLUME[0], [1, 2, 3], [4, 4, 3], random(1, 2, 3)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fractional_max_pool(
    case: tuple[torch.Tensor, list[int], list[int], torch.Tensor], matches_eager: Check
) -> None:
    x, kernel, counts, places = case
    pool = getattr(aten, f"fractional_max_pool{len(kernel)}d")
    run = matches_eager(lambda x, places: pool(x, kernel, counts, places), x, places)
    assert "aten.call" not in run.ops()


@pytest.mark.parametrize("name", ["image", "one image", "volume"])
def test_gradient(name: str, matches_eager: Check) -> None:
    x, kernel, counts, places = CASES[name]
    rank = len(kernel)
    largest, positions = getattr(aten, f"fractional_max_pool{rank}d")(x, kernel, counts, places)
    backward = getattr(aten, f"fractional_max_pool{rank}d_backward")
    run = matches_eager(lambda g, x, at: backward(g, x, kernel, counts, at), torch.cos(largest), x, positions)
    assert "aten.call" not in run.ops()


def test_many_places_are_called(matches_eager: Check) -> None:
    run = matches_eager(lambda x, places: aten.fractional_max_pool2d(x, [6, 6], [5, 5], places), IMAGE, PLACES)
    assert "32 elements" in run.reasons()["aten.fractional_max_pool2d.default"]
