"""Positions outside a tensor raise, as in eager, whatever form they come in; the process and the program live on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

Function = Callable[..., Any]


@pytest.mark.parametrize(
    ("function", "bad", "good"),
    [
        (lambda x: x[torch.arange(20)], (torch.randn(10),), (torch.randn(30),)),
        (
            F.cross_entropy,
            (torch.randn(4, 8), torch.tensor([1, 2, 9, 3])),
            (torch.randn(4, 8), torch.tensor([1, 2, -100, 3])),
        ),
        (
            lambda w, i: F.embedding(i, w),
            (torch.randn(4, 8), torch.tensor([4])),
            (torch.randn(4, 8), torch.tensor([3])),
        ),
        (
            lambda x, i: x.scatter(1, i[:, None], 1.0) * 2,
            (torch.randn(4, 8), torch.tensor([1, 2, 8, 3])),
            (torch.randn(4, 8), torch.tensor([1, 2, 7, 0])),
        ),
    ],
    ids=["range", "target", "embedding", "scatter"],
)
def test_raises_and_goes_on(function: Function, bad: tuple[Any, ...], good: tuple[Any, ...], backend: str) -> None:
    compiled = torch.compile(function, backend=backend)
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        compiled(*bad)
    torch.testing.assert_close(compiled(*good), function(*good))


def test_reshape_of_a_single_number(same_as_eager: Function) -> None:
    same_as_eager(lambda x: x.sum().exp().reshape(1, 1), torch.randn(10))
