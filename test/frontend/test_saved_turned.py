"""A training step saves a bias from a table of positions in the order in which both graphs read it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import embedding

Program = Callable[[Tensor, Tensor, Tensor], Tensor]
Split = Callable[..., tuple[Program, list[torch.fx.Graph]]]


def for_each_head(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The bias is added to scores of several samples."""
    return (x * embedding(positions, table).permute(2, 0, 1)).sin().sum()


def read_as_it_is(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    bias = embedding(positions, table)
    return (x * bias.permute(2, 0, 1)).sum() + bias.sin().sum()


def read_once(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """Each element has one reader, and the kernel that reads it may walk as it lies."""
    return (x[0] * embedding(positions, table).permute(2, 0, 1)).sin().sum()


def of_rows(x: Tensor, table: Tensor, positions: Tensor) -> Tensor:
    """The last dim stays: sectors hold neighbours in either order."""
    return (x.transpose(1, 3) * embedding(positions, table).permute(1, 0, 2)).sin().sum()


@pytest.mark.parametrize(
    ("function", "strides"),
    [
        *((for_each_head, (4, 1, 16)), (read_as_it_is, (12, 3, 1))),
        *((read_once, (12, 3, 1)), (of_rows, (12, 3, 1))),
    ],
)
@pytest.mark.parametrize("target", ["cuda:90", "cpu"])
def test_a_repeated_bias_is_saved_as_read(
    function: Program, strides: tuple[int, ...], target: str, split: Split
) -> None:
    torch.manual_seed(0)
    x, table = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 3, 4, 4), (7, 3)))
    positions = torch.randint(7, (4, 4))
    compiled, graphs = split(function, target)
    expected = torch.autograd.grad(function(x, table, positions), (x, table))
    actual = torch.autograd.grad(compiled(x, table, positions), (x, table))
    torch.testing.assert_close(actual, expected)
    arguments = [n.meta["val"] for n in graphs[1].find_nodes(op="placeholder")]
    (saved,) = [value.stride() for value in arguments if value.shape == (4, 4, 3)]
    assert saved == (strides if target == "cuda:90" else (12, 3, 1))
