"""Sums of many numbers of f32: their error stays small where one number after the other would be off by a tenth."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cuesta.tools.accuracy import largest_error

#: What each step of a running total rounds, f32 would show in the result: (function, its x).
RUNNING: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "cumsum": (lambda x: x.cumsum(0), torch.full((2_000_000,), 0.1)),
    "cumsum of columns": (lambda x: x.exp().cumsum(0), torch.full((200_000, 3), 0.1)),
    "cumprod": (lambda x: x.cumprod(-1), torch.full((500_000,), 1 + 1e-6)),
    "logcumsumexp": (lambda x: x.logcumsumexp(0), torch.full((200_000, 2), 0.1)),
}
TOTALS: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "sum": (lambda x: x.sum(), torch.full((4_000_000,), 0.1)),
    "loss": (lambda x: F.mse_loss(x, x * 0), torch.full((4_000_000,), 0.1)),
    "columns": (lambda x: x.mean(0), torch.full((100_000, 64), 0.1)),
    "rows": (lambda x: (x + 1).sum(1), torch.full((16, 400_000), 0.1)),
    "gradient of a bias": (lambda x: x.sum((0, 2, 3)), torch.full((16, 8, 160, 160), 0.1)),
}


def relative_error(function: Callable[[Tensor], Tensor], x: Tensor, dynamic: bool = False) -> float:
    torch._dynamo.reset()
    exact = function(x.double())
    found = torch.compile(function, backend="cuesta", dynamic=dynamic)(x)
    return largest_error(found, exact) / float(exact.abs().max())


@pytest.mark.parametrize(("function", "x"), RUNNING.values(), ids=RUNNING.keys())
def test_a_running_total_is_as_exact_as_its_last_place(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    assert relative_error(function, x) < 1e-7


@pytest.mark.parametrize(("function", "x"), TOTALS.values(), ids=TOTALS.keys())
def test_a_total_is_added_up_in_parts(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    assert relative_error(function, x) < 3e-5


@pytest.mark.parametrize(("function", "x"), TOTALS.values(), ids=TOTALS.keys())
def test_a_total_of_what_a_call_tells_is_added_up_in_boxes(function: Callable[[Tensor], Tensor], x: Tensor) -> None:
    assert relative_error(function, x, dynamic=True) < 3e-5


def test_one_program_adds_up_few_and_many() -> None:
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda x: (x * 2).sum(0), backend="cuesta", dynamic=True)
    for rows in (5, 2049, 30_001, 300_000):
        x = torch.full((rows, 40), 0.1)
        exact = (x.double() * 2).sum(0)
        torch.testing.assert_close(compiled(x).double(), exact, rtol=3e-5, atol=0)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
