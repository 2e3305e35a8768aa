"""Results that share memory with an argument or with one another, as eager's do, and results that must not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

Check = Callable[..., Any]


def test_an_output_that_is_an_input(backend: str) -> None:
    x = torch.randn(4)
    y, z, same = torch.compile(lambda x: (x + 1, x, x), backend=backend, fullgraph=True)(x)
    assert z is x
    assert same is x
    assert_close(y, x + 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.view(-1),
        lambda x: (x.t(), x[1:], x.unsqueeze(0).expand(3, -1, -1)),
        lambda x: (x * 2, x[:, 1]),
        lambda x: x.detach(),
        lambda x: x.as_strided((2, 2), (1, 2), 1),
    ],
    ids=["view", "several", "beside_a_result", "detach", "as_strided"],
)
def test_an_output_that_is_a_view_of_an_input(f: Callable[[Tensor], Any], same_as_eager: Check) -> None:
    same_as_eager(f, torch.randn(4, 6))


def test_outputs_that_are_views_of_one_result(same_as_eager: Check) -> None:
    def views(x: Tensor) -> tuple[Tensor, ...]:
        y = x + 1
        return y, y.t(), y[0], y

    same_as_eager(views, torch.randn(4, 6))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.diagonal(1),
        lambda x: x.unfold(0, 2, 1)[1:],
        lambda x: x.split(2)[1].diagonal(),
        lambda x: x.t().as_strided((2, 2), (1, 6)),
        lambda x: x.view(torch.int32).t(),
        lambda x: x.view(4, 1, 6)[:, 0],
    ],
    ids=["diagonal", "unfold", "split", "as_strided", "dtype", "reshaped"],
)
def test_a_view_beside_its_whole_shares_the_memory(view: Callable[[Tensor], Tensor], backend: str) -> None:
    def f(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = x + 1
        return y, view(y), view(x * 2)

    x = torch.randn(4, 6)
    y, part, alone = torch.compile(f, backend=backend)(x)
    assert_close((part, alone), (view(x + 1), view(x * 2)))
    part.zero_()
    assert_close(view(y), part)


def test_an_output_twice_may_be_written_to(backend: str) -> None:
    def twice(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return y, y

    first, second = torch.compile(twice, backend=backend)(torch.ones(3))
    first.add_(1)
    assert_close(second, torch.full((3,), 3.0))
