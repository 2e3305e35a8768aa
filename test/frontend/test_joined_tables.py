"""Gradients of many tables: one call on a GPU, where that is estimated to take less time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.tables.joined_tables import join_table_gradients
from cuesta.targets import parse_target

CALL = torch.ops.aten.embedding_dense_backward.default
SIZES = (5, 1, 40, 7, 300, 2, 9, 11)


def made(count: int, tables: tuple[int, ...] = SIZES, *, padding: int = -1, width: int = 6) -> tuple[Any, list[Tensor]]:
    """A function that computes the gradients of tables of these sizes, `count` rows for each, and its arguments."""
    g = torch.Generator().manual_seed(count)
    rows = [torch.randn(count // 2, 2, width, generator=g) for _ in tables]
    places = [torch.randint(size, (count // 2, 2), generator=g) for size in tables]

    def gradients(*xs: Tensor) -> list[Tensor]:
        given, at = xs[: len(tables)], xs[len(tables) :]
        found = [CALL(r * 2, i, size, padding, False) for r, i, size in zip(given, at, tables, strict=True)]
        return [table + 1 for table in found]

    return gradients, [*rows, *places]


def joined(function: Any, arguments: list[Tensor], target: str = "cuda:90") -> tuple[GraphModule, int]:
    """The rewritten graph, and how many gradients it calls for."""
    gm = make_fx(function, tracing_mode="fake")(*arguments)
    join_table_gradients(gm, parse_target(target))
    return gm, len(gm.graph.find_nodes(op="call_function", target=CALL))


def test_gradients_of_many_tables_are_one() -> None:
    function, arguments = made(2200)
    gm, calls = joined(function, arguments)
    assert calls == 1
    torch.testing.assert_close(gm(*arguments), function(*arguments))


@pytest.mark.parametrize(
    ("count", "tables", "options", "target", "calls"),
    [
        (2200, SIZES[:2], {}, "cuda:90", 2),  # each walks over few rows
        (4000, SIZES[:3], {}, "cuda:90", 1),  # each would be sorted
        (2200, SIZES, {"padding": 0}, "cuda:90", 8),
        (2200, SIZES, {}, "cpu", 8),
    ],
)
def test_where_one_call_takes_less_time(
    count: int, tables: tuple[int, ...], options: dict[str, int], target: str, calls: int
) -> None:
    function, arguments = made(count, tables, **options)
    gm, found = joined(function, arguments, target)
    assert found == calls
    torch.testing.assert_close(gm(*arguments), function(*arguments))


def test_a_gradient_that_is_read_before_the_last_stays_alone() -> None:
    function, arguments = made(2200)

    def chained(*xs: Tensor) -> list[Tensor]:
        first = CALL(xs[0], xs[len(SIZES)], SIZES[0], -1, False)
        return [first, *function(xs[0] + first.sum(), *xs[1:])]

    gm, calls = joined(chained, arguments)
    assert calls == 2
    torch.testing.assert_close(gm(*arguments), chained(*arguments))


def test_tables_of_another_width_stay_apart() -> None:
    narrow, wide = made(2200), made(2200, width=8)

    def both(*xs: Tensor) -> list[Tensor]:
        half = len(xs) // 2
        return [*narrow[0](*xs[:half]), *wide[0](*xs[half:])]

    gm, calls = joined(both, narrow[1] + wide[1])
    assert calls == 2
    torch.testing.assert_close(gm(*narrow[1], *wide[1]), both(*narrow[1], *wide[1]))
