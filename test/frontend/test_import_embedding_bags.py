"""Bags of a table's rows, as imported, against eager: bags without rows, left-out rows, weights; their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuesta.frontend.decompositions.table import decompositions

Check = Callable[..., Any]
aten = torch.ops.aten


def wholes(high: int, *sizes: int) -> torch.Tensor:
    return torch.randint(0, high, sizes, generator=torch.Generator().manual_seed(sum(sizes)))


TABLE = torch.randn(20, 40, generator=torch.Generator().manual_seed(0))
#: Two rows with equal numbers, and NaN.
TABLE[7] = TABLE[11]
TABLE[3, :5] = torch.nan
FEW, MANY = wholes(20, 5, 3), wholes(20, 3, 35)
#: Bags without rows: in between, and the last one.
OFFSETS = torch.tensor([0, 2, 2, 9, 15])
WEIGHTS = torch.rand(15, generator=torch.Generator().manual_seed(1))
NO_NAN = TABLE.nan_to_num(0)


@pytest.mark.parametrize("padding", [None, 7])
@pytest.mark.parametrize("indices", [FEW, FEW.int(), MANY, FEW[:, :1]], ids=["few", "i32", "many", "one"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_equal_bags(mode: str, indices: torch.Tensor, padding: int | None, matches_eager: Check) -> None:
    table = TABLE if mode != "max" else NO_NAN  # of the maximum with NaN eager has what comes first
    run = matches_eager(lambda w, i: F.embedding_bag(i, w, mode=mode, padding_idx=padding), table, indices)
    assert not run.reasons()


def test_narrow_rows_and_weights(matches_eager: Check) -> None:
    run = matches_eager(lambda w, i: F.embedding_bag(i, w, mode="sum"), NO_NAN.bfloat16(), FEW)
    assert not run.reasons()
    weights = WEIGHTS.reshape(5, 3)
    run = matches_eager(
        lambda w, i, s: F.embedding_bag(i, w, per_sample_weights=s, mode="sum", padding_idx=2), TABLE, FEW, weights
    )
    assert not run.reasons()


@pytest.mark.parametrize("last", [False, True])
def test_maxima_of_bags_by_offsets(last: bool, matches_eager: Check) -> None:
    def largest(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> Any:
        return (
            F.embedding_bag(i, w, o, mode="max", include_last_offset=last),
            torch.embedding_bag(w, i, o, False, 2, False, None, last, 4)[3],
        )

    assert not matches_eager(largest, NO_NAN, FEW.flatten(), OFFSETS).reasons()


def test_all_results(matches_eager: Check) -> None:
    offsets = torch.arange(0, 15, 3)
    every = matches_eager(
        lambda w, i: torch.embedding_bag(w, i, torch.arange(0, 15, 3), False, 2), NO_NAN, FEW.flatten()
    )
    assert not every.reasons()
    sizes = matches_eager(
        lambda w, i: torch.embedding_bag(w, i, torch.arange(0, 15, 3), False, 1)[:3], TABLE, FEW.flatten()
    )
    assert not sizes.reasons()
    assert matches_eager(lambda w, i, o: F.embedding_bag(i, w, o), TABLE, FEW.flatten(), offsets).reasons()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_gradients(mode: int, last: bool) -> None:
    table, indices = decompositions(), FEW.flatten()
    bags = aten._embedding_bag(NO_NAN, indices, OFFSETS, False, mode, False, None, last, 4)
    grad = torch.randn(bags[0].shape, generator=torch.Generator().manual_seed(2))
    rest = (20, False, mode, False, WEIGHTS if mode == 0 else None, 4)
    expected = aten._embedding_bag_backward(grad, indices, OFFSETS, *bags[1:], *rest)
    mine = table[aten._embedding_bag_backward.default](grad, indices, OFFSETS, *bags[1:], *rest)
    torch.testing.assert_close(mine, expected)
    nothing = bags[1][:0]  # as eager's fast ways leave the bag of each row
    mine = table[aten._embedding_bag_backward.default](grad, indices, OFFSETS, nothing, *bags[2:], *rest)
    torch.testing.assert_close(mine, expected)
    if mode == 0:
        arguments = (NO_NAN, indices, OFFSETS, bags[1], mode, 4)
        expected = aten._embedding_bag_per_sample_weights_backward(grad, *arguments)
        mine = table[aten._embedding_bag_per_sample_weights_backward.default](grad, *arguments)
        torch.testing.assert_close(mine, expected)


def test_a_sparse_gradient_is_atens() -> None:
    bags = aten._embedding_bag(TABLE, FEW.flatten(), OFFSETS)
    backward = decompositions()[aten._embedding_bag_backward.default]
    assert backward(bags[0], FEW.flatten(), OFFSETS, *bags[1:], 20, False, 0, True, None) is NotImplemented
