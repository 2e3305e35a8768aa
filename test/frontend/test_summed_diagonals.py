"""Sums along diagonals become sums of shifted rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from cuesta.frontend.fx_passes.summed_positions.summed_diagonals import sum_diagonals
from cuesta.targets import parse_target

aten = torch.ops.aten
GPU = parse_target("cuda:90")
HEADS, QUERIES, KEYS = 3, 5, 7


def rows() -> Tensor:
    return torch.arange(QUERIES)[:, None]


def heads() -> Tensor:
    return torch.arange(HEADS, dtype=torch.int32).view(HEADS, 1, 1).expand(2, HEADS, QUERIES, KEYS)


#: The places of values [2, heads, queries, keys], for each dim of the result, and the result's shape.
SUMMED: dict[str, tuple[Callable[[], list[Tensor]], tuple[int, ...]]] = {
    "distances": (lambda: [heads(), rows() - torch.arange(KEYS) + KEYS - 1], (HEADS, QUERIES + KEYS - 1)),
    "distances first": (lambda: [torch.arange(KEYS) - rows() + QUERIES, heads()], (QUERIES + KEYS, HEADS)),
    "sums": (lambda: [heads(), rows() + torch.arange(1, KEYS + 1)], (HEADS, QUERIES + KEYS)),
    "two rows apart": (lambda: [heads(), rows() + rows() - torch.arange(KEYS) + KEYS], (HEADS, 20)),
    "of parts": (lambda: [heads(), (rows().expand(9, QUERIES, KEYS) - torch.arange(KEYS) + 9)[2:3]], (HEADS, 16)),
    "a place of size 1": (
        lambda: [heads(), (torch.arange(1) + torch.arange(QUERIES))[:, None] + torch.arange(KEYS)],
        (HEADS, QUERIES + KEYS),
    ),
    "a row of size 1": (
        lambda: [heads(), torch.arange(9)[:, None][4:5] + rows() + torch.arange(KEYS)],
        (HEADS, 4 + QUERIES + KEYS),
    ),
    "of all heads": (lambda: [(rows() - torch.arange(KEYS) + KEYS).expand(2, HEADS, -1, -1)], (QUERIES + KEYS,)),
}
#: Sums that stay as they are.
OTHERS: dict[str, tuple[Callable[[], list[Tensor]], tuple[int, ...]]] = {
    "no diagonal": (lambda: [heads(), rows().expand(QUERIES, KEYS)], (HEADS, QUERIES)),
    "from the end": (lambda: [heads(), rows() - torch.arange(KEYS)], (HEADS, QUERIES + KEYS)),
    "two columns apart": (lambda: [heads(), rows() - 2 * torch.arange(KEYS) + 12], (HEADS, 30)),
    "buckets": (lambda: [heads(), (rows() - torch.arange(KEYS)).abs()], (HEADS, KEYS)),
    "two diagonals": (
        lambda: [(rows() + torch.arange(KEYS)).expand(2, HEADS, -1, -1), rows() - torch.arange(KEYS) + KEYS],
        (12, 12),
    ),
    "values that are repeated": (
        lambda: [heads(), rows() - torch.arange(KEYS) + KEYS - 1],
        (HEADS, QUERIES + KEYS - 1),
    ),
}


def summed(name: str, start: float = 0.0) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    positions, shape = (SUMMED | OTHERS)[name]

    def function(values: Tensor) -> Tensor:
        return values.new_full(shape, start).index_put(positions(), values, accumulate=True)

    torch.manual_seed(0)
    return function, torch.randn(1 if "repeated" in name else 2, HEADS, QUERIES, KEYS)


@pytest.mark.parametrize("start", [0.0, 2.0])
@pytest.mark.parametrize("name", SUMMED)
def test_sums_of_diagonals(name: str, start: float) -> None:
    function, values = summed(name, start)
    gm = make_fx(function, tracing_mode="fake")(values)
    sum_diagonals(gm, GPU)
    assert not gm.graph.find_nodes(op="call_function", target=aten.index_put.default)
    torch.testing.assert_close(gm(values), function(values))


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums(name: str) -> None:
    function, values = summed(name)
    gm = make_fx(function, tracing_mode="fake")(values)
    sum_diagonals(gm, GPU)
    assert gm.graph.find_nodes(op="call_function", target=aten.index_put.default)
    torch.testing.assert_close(gm(values), function(values))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool])
def test_sums_of_other_numbers(dtype: torch.dtype) -> None:
    """Their sum has another type, or is no sum."""
    function, values = summed("distances")
    gm = make_fx(function, tracing_mode="fake")(values.to(dtype))
    sum_diagonals(gm, GPU)
    assert gm.graph.find_nodes(op="call_function", target=aten.index_put.default)


def test_positions_computed_in_many_ways() -> None:
    """Each op is looked at once."""

    def function(values: Tensor) -> Tensor:
        at = rows() - torch.arange(KEYS)
        for _ in range(40):
            at = at - at
        return values.new_zeros(HEADS, 20).index_put([heads(), at], values, accumulate=True)

    gm = make_fx(function, tracing_mode="fake")(torch.randn(2, HEADS, QUERIES, KEYS))
    sum_diagonals(gm, GPU)
    assert gm.graph.find_nodes(op="call_function", target=aten.index_put.default)


def test_a_cpu_adds_in_order() -> None:
    function, values = summed("distances")
    gm = make_fx(function, tracing_mode="fake")(values)
    sum_diagonals(gm)
    assert gm.graph.find_nodes(op="call_function", target=aten.index_put.default)
