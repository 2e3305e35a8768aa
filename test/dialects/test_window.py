"""`window`, compiled, against its reference: before and past the ends, with steps, with elements repeated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from cuesta.dialects.types import SPELLING

#: (starts, steps, divisors, result's shape) of reads of a [4, 1, 6].
WINDOWS = {
    "inside": ([1, 0, 0], [1, 1, 2], [1, 1, 1], [3, 1, 3]),
    "around": ([-1, -1, -2], [2, 1, 1], [1, 1, 1], [3, 3, 10]),
    "backwards": ([3, 0, 7], [-1, 1, -2], [1, 1, 1], [4, 1, 5]),
    "repeated": ([0, 0, -3], [1, 1, 1], [2, 3, 3], [8, 3, 24]),
    "one": ([5, 0, 2], [1, 1, 1], [1, 1, 1], [1, 1, 1]),
}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS.keys())
def test_window(window: tuple[list[int], ...], check_op: Callable[..., None]) -> None:
    starts, steps, divisors, shape = window
    x = torch.arange(-12, 12).reshape(4, 1, 6)
    attributes = f"starts = {starts}, steps = {steps}, divisors = {divisors}, outside = 3.0 : f64"
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool):
        check_op("window", [x.to(dtype)], [(shape, SPELLING[dtype])], attributes)
