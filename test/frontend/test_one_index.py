"""Gradients of tables that one index reads: one call on a GPU, where copies take less time than the sort it spares."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.tables.one_index import join_gradients_of_one_index
from cuesta.targets import parse_target

CALL = torch.ops.aten.embedding_dense_backward.default


def made(rows: int, count: int, widths: tuple[int, ...], padding: int = -1) -> tuple[Any, list[Tensor]]:
    """A function that computes the gradients of tables of these widths, which one index of `rows` rows reads, and its
    arguments."""
    g = torch.Generator().manual_seed(rows)
    index = torch.randint(count, (rows // 2, 2), generator=g)
    given = [torch.randn(rows // 2, 2, width, generator=g) for width in widths]

    def gradients(index: Tensor, *rows: Tensor) -> list[Tensor]:
        return [CALL(r * 2, index, count, padding, False) for r in rows]

    return gradients, [index, *given]


def calls(function: Any, arguments: list[Tensor], target: str) -> int:
    """How many gradients the rewritten graph calls for, which must compute what the function does, without gaps."""
    gm = make_fx(function, tracing_mode="fake")(*arguments)
    join_gradients_of_one_index(gm, parse_target(target))
    torch.testing.assert_close(gm(*arguments), function(*arguments))
    assert all(table.is_contiguous() for table in gm(*arguments))
    return len(gm.graph.find_nodes(op="call_function", target=CALL))


@pytest.mark.parametrize(
    ("rows", "count", "widths", "target", "expected"),
    [
        (4000, 100, (6, 1, 4), "cuda:90", 1),
        (3000, 100, (6, 1), "cuda:90", 2),  # few rows are not sorted
        (4000, 400_000, (64, 64), "cuda:90", 2),  # tables that take long to copy
        (4000, 100, (6, 1), "cpu", 2),
    ],
)
def test_where_one_call_takes_less_time(
    rows: int, count: int, widths: tuple[int, ...], target: str, expected: int
) -> None:
    assert calls(*made(rows, count, widths), target) == expected


def test_a_padding_row_stays_zero() -> None:
    assert calls(*made(4000, 100, (6, 1), padding=3), "cuda:90") == 1


def test_tables_of_other_sizes_stay_apart() -> None:
    first, arguments = made(4000, 100, (6,))
    second, _ = made(4000, 120, (6,))
    assert calls(lambda *xs: first(*xs) + second(*xs), arguments, "cuda:90") == 2
