"""Results that are expanded views of what the graph computes: eager's strides, whatever order their memory is in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor


def repeated_diagonal(x: Tensor) -> Tensor:
    """Its numbers lie apart, with others between them."""
    diagonal = x.diagonal()
    return diagonal.expand(3, *diagonal.shape)


FUNCTIONS: dict[str, Callable[[Tensor], Any]] = {
    "of sums": lambda x: x.floor().sum(0, keepdim=True).expand(3, 4, 5),
    "of converted numbers": lambda x: x.flip(1).double().broadcast_to(2, 3, 4, 5),
    "permuted": lambda x: x.sqrt()[:, None].expand(3, 6, 4, 5).permute(2, 1, 3, 0),
    "of a diagonal": lambda x: repeated_diagonal(x.sqrt()),
    "beside what it repeats": lambda x: (x.neg(), x.neg().expand(2, 3, 4, 5)),
}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("strides", [(20, 5, 1), (1, 3, 12), (4, 1, 12)])
def test_an_output_that_repeats(
    f: Callable[[Tensor], Any], strides: tuple[int, ...], same_as_eager: Callable[..., None]
) -> None:
    same_as_eager(f, torch.arange(60.0).as_strided((3, 4, 5), strides))
