"""Every reduction, compiled, against its torch reference: any dims, any memory order, special values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as npst
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cuesta.dialects.cuesta import reduction
from cuesta.dialects.types import SPELLING

Tensor = torch.Tensor
Check = Callable[..., None]

#: A program takes 40 ms to compile, and 10 ms for each op in it: a row's dtypes share one.
EXAMPLES = 5
FLOATS = (torch.float32, torch.float64, torch.bfloat16)
NUMBERS = (*FLOATS, torch.int64)
DTYPES = {"any": (torch.bool,), "all": (torch.bool,), "sum": NUMBERS, "prod": NUMBERS}
ORDERED = (*NUMBERS, torch.int8, torch.uint8, torch.bool)
compiled = settings(max_examples=EXAMPLES)


#: Factors whose products are exact, however many there are: the reference rounds after each dim.
POWERS = st.sampled_from([1.0, -1.0, 2.0, -2.0, 0.5, -0.5])


def elements(dtype: torch.dtype, special: bool, name: str) -> st.SearchStrategy[Any]:
    if dtype == torch.bool:
        return st.booleans()
    if not dtype.is_floating_point:
        return st.integers(torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    # Small eighths: sums of them are the same in any order.
    usual = POWERS if name == "prod" else st.integers(-16, 16).map(lambda n: n / 8)
    return st.one_of(usual, st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -0.0])) if special else usual


@st.composite
def tensors(draw: st.DrawFn, dtype: torch.dtype, name: str, min_dims: int = 0) -> Tensor:
    """A tensor of any memory order; in half of the cases without special values, which drown all others."""
    shape = draw(npst.array_shapes(min_dims=min_dims, max_dims=4, min_side=1, max_side=9))
    numbers = draw(st.lists(elements(dtype, draw(st.booleans()), name), min_size=1, max_size=24))
    count = math.prod(shape)
    order = draw(st.permutations(range(len(shape))))
    stored = torch.tensor((numbers * count)[:count], dtype=dtype).reshape([shape[d] for d in order])
    return stored.permute([order.index(d) for d in range(len(shape))])


@pytest.mark.parametrize("row", reduction.ROWS, ids=lambda row: row.name)
def test_row(row: reduction.Reduction, check_ops: Check) -> None:
    def drawn(data: st.DataObject, dtype: torch.dtype) -> tuple[Any, ...]:
        x = data.draw(tensors(dtype, row.name))
        dims = sorted(data.draw(st.sets(st.integers(0, x.dim() - 1)) if x.dim() else st.just(set())))
        keep = data.draw(st.booleans())
        shape = [1 if d in dims else n for d, n in enumerate(x.shape) if keep or d not in dims]
        return row.name, [x], [(shape, SPELLING[dtype])], f"dims = {dims}, keepdim = {int(keep)}"

    @compiled
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        check_ops(drawn(data, dtype) for dtype in DTYPES.get(row.name, ORDERED))

    holds()


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_position(name: str, check_ops: Check) -> None:
    def drawn(data: st.DataObject, dtype: torch.dtype) -> tuple[Any, ...]:
        x = data.draw(tensors(dtype, name, min_dims=1))
        dim = data.draw(st.integers(0, x.dim() - 1))
        shape = [n for d, n in enumerate(x.shape) if d != dim]
        return name, [x], [(shape, "i64")], f"dim = {dim}"

    @compiled
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        check_ops(drawn(data, dtype) for dtype in ORDERED)

    holds()


RUNNING = {"cumsum": NUMBERS, "cumprod": NUMBERS, "logcumsumexp": (torch.float32, torch.float64)}


@pytest.mark.parametrize("name", RUNNING)
def test_running(name: str, check_ops: Check) -> None:
    def drawn(data: st.DataObject, dtype: torch.dtype) -> tuple[Any, ...]:
        x = data.draw(tensors(dtype, name, min_dims=1))
        dim = data.draw(st.integers(0, x.dim() - 1))
        return name, [x], [(tuple(x.shape), SPELLING[dtype])], f"dim = {dim}"

    @compiled
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        check_ops(drawn(data, dtype) for dtype in RUNNING[name])

    holds()


def test_narrow_floats_accumulate_wide(check_op: Check) -> None:
    # 256 + 1 is 256 in bf16: sums that rounded at each step would stay there, one for each vector lane.
    x = torch.ones(2, 40_000).bfloat16()
    check_op("sum", [x], [([2], "bf16")], "dims = [1], keepdim = 0")
    check_op("cumsum", [x], [(tuple(x.shape), "bf16")], "dim = 1")


@pytest.mark.parametrize("shape", [(100_003,), (7, 40_001), (40_001, 7)])
def test_long_sums_are_as_exact_as_torch(shape: tuple[int, ...], check_op: Check) -> None:
    x = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    for dim in range(len(shape)):
        result = [n for d, n in enumerate(shape) if d != dim]
        check_op("sum", [x], [(result, "f32")], f"dims = [{dim}], keepdim = 0")
