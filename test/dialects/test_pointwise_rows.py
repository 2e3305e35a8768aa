"""Every pointwise row: its scalar meaning, compiled, against its torch reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis.extra.numpy as npst
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.types import SPELLING
from cuesta.tools.fuzz.graphs import steps

Tensor = torch.Tensor
FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)
#: What rows are tested with: every way to compute. The others differ in width only.
COMPUTED = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.uint8, torch.bool)

#: NaN, infinities, both zeros, denormals of f32, and numbers at which formulas change.
SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 20.0, -100.0)

PARAMETERS = steps.PARAMETERS | {"threshold": 3.0}

#: Rows that divide integers.
DIVISIONS = ("floor_divide", "remainder", "fmod", "trunc_divide")

#: A program takes 40 ms to compile, and 10 ms for each op in it: a row's dtypes share one.
EXAMPLES = 4

#: Rows whose reference goes astray on some numbers, and what replaces those.
ASTRAY: dict[str, Callable[[float], float]] = {
    # oneDNN's gelu is NaN at infinity, and its gradient is at -infinity.
    "gelu": lambda x: math.copysign(30, x) if math.isinf(x) else x,
    "gelu_backward": lambda x: math.copysign(30, x) if math.isinf(x) else x,
    "gelu_tanh_backward": lambda x: math.copysign(30, x) if math.isinf(x) else x,
    # Sleef's fmod is NaN where the quotient is large.
    "remainder": lambda x: math.copysign(1, x) if 0 < abs(x) < 1e-3 else x,
    "floor_divide": lambda x: math.copysign(1, x) if 0 < abs(x) < 1e-3 else x,
    "fmod": lambda x: math.copysign(1, x) if 0 < abs(x) < 1e-3 else x,
    **dict.fromkeys(steps.NEVER_INFINITE, lambda x: math.copysign(30, x) if math.isinf(x) else x),
}


def takes(row: pointwise.Pointwise, dtype: torch.dtype) -> bool:
    """Whether the importer makes this op with operands of `dtype`."""
    if row.promotion == "logical":
        return dtype == torch.bool
    if row.promotion == "float" and not dtype.is_floating_point:
        return False
    if dtype == torch.float64 and not row.doubles:
        return False
    example = [torch.ones(1, dtype=dtype)] * row.arity
    try:
        result = row.reference(*example, *(PARAMETERS[p] for p in row.params))
    except (RuntimeError, TypeError):
        return False
    return result.dtype == (torch.bool if row.promotion == "compare" else dtype)


@st.composite
def operands(draw: st.DrawFn, name: str, arity: int, dtype: torch.dtype) -> list[Tensor]:
    """Tensors that broadcast together, of any memory order."""
    shapes = draw(npst.mutually_broadcastable_shapes(num_shapes=arity, max_dims=3, min_side=1, max_side=9)).input_shapes
    return [draw(tensors(name, shape, dtype, divides=i > 0)) for i, shape in enumerate(shapes)]


@st.composite
def tensors(draw: st.DrawFn, name: str, shape: tuple[int, ...], dtype: torch.dtype, divides: bool) -> Tensor:
    numbers = draw(st.lists(elements(name, dtype, divides), min_size=1, max_size=24))
    count = math.prod(shape)
    order = draw(st.permutations(range(len(shape))))
    stored = torch.tensor((numbers * count)[:count], dtype=dtype).reshape([shape[d] for d in order])
    return stored.permute([order.index(d) for d in range(len(shape))])


def elements(name: str, dtype: torch.dtype, divides: bool) -> st.SearchStrategy[Any]:
    if dtype == torch.bool:
        return st.booleans()
    if not dtype.is_floating_point:
        whole = st.integers(0 if dtype == torch.uint8 else -100, 100)
        # A division by zero traps: the importer leaves it to ATen.
        return whole.filter(bool) if divides and name in DIVISIONS else whole
    usual = st.floats(-30, 30, width=16)
    numbers = st.one_of(usual, st.sampled_from(SPECIAL))
    return numbers.map(ASTRAY[name]) if name in ASTRAY else numbers


@pytest.mark.parametrize("row", pointwise.ROWS, ids=lambda row: row.name)
def test_row(row: pointwise.Pointwise, check_ops: Callable[..., None]) -> None:
    attributes = ", ".join(f"{p} = {PARAMETERS[p]} : f64" for p in row.params)
    dtypes = [dtype for dtype in COMPUTED if takes(row, dtype)]
    assert dtypes

    @settings(max_examples=EXAMPLES)
    @given(st.tuples(*(operands(row.name, row.arity, dtype) for dtype in dtypes)))
    def holds(of_each: tuple[list[Tensor], ...]) -> None:
        results = ["i1" if row.promotion == "compare" else SPELLING[dtype] for dtype in dtypes]
        shapes = [torch.broadcast_shapes(*(x.shape for x in xs)) for xs in of_each]
        check_ops(
            (row.name, xs, [(shape, result)], attributes)
            for xs, shape, result in zip(of_each, shapes, results, strict=True)
        )

    holds()


def test_where(check_ops: Callable[..., None]) -> None:
    @settings(max_examples=EXAMPLES)
    @given(st.tuples(*(operands("where", 3, dtype) for dtype in COMPUTED)))
    def holds(of_each: tuple[list[Tensor], ...]) -> None:
        shapes = [torch.broadcast_shapes(*(x.shape for x in xs)) for xs in of_each]
        check_ops(
            ("where", [xs[0].bool(), *xs[1:]], [(shape, SPELLING[dtype])])
            for xs, shape, dtype in zip(of_each, shapes, COMPUTED, strict=True)
        )

    holds()


@pytest.mark.parametrize("source", DTYPES, ids=lambda d: SPELLING[d])
def test_convert(source: torch.dtype, check_ops: Callable[..., None]) -> None:
    @settings(max_examples=2)
    @given(st.tuples(*(operands("convert", 1, source) for _ in DTYPES)))
    def holds(to_each: tuple[list[Tensor], ...]) -> None:
        check_ops(
            ("convert", [x], [(tuple(x.shape), SPELLING[target])]) for (x,), target in zip(to_each, DTYPES, strict=True)
        )

    holds()


#: What some integers do not hold, and what they just hold.
BEYOND = (
    math.nan,
    math.inf,
    -math.inf,
    1e30,
    *(s * x for s in (1.0, -1.0) for x in (300.7, 7e4, 2.0**31, 3e9, 2.0**63)),
)


@pytest.mark.parametrize("source", FLOATS, ids=lambda d: SPELLING[d])
@pytest.mark.parametrize("target", DTYPES[4:], ids=lambda d: SPELLING[d])
def test_what_an_integer_does_not_hold(source: torch.dtype, target: torch.dtype) -> None:
    """As eager on x86, in vectors and behind them, and where the compiler sees the number."""

    def constants(x: Tensor) -> list[Tensor]:
        filled = [torch.full((9,), number).to(source).to(target) for number in BEYOND]
        return [*filled, *(torch.where(x > 0, number, x).to(source).to(target) for number in BEYOND), x.to(target)]

    torch._dynamo.reset()
    x = torch.tensor(BEYOND * 5, dtype=torch.float64).to(source)
    compiled = torch.compile(constants, backend="cuesta", fullgraph=True)
    for actual, expected in zip(compiled(x), constants(x), strict=True):
        assert actual.equal(expected)


def test_gelu_of_every_bf16() -> None:
    """It has a formula of its own: as near to the exact value as eager's, of every number."""
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16)
    x = x[x.abs() < 3e38]
    actual = torch.compile(torch.nn.functional.gelu, backend="cuesta")(x)
    exact = torch.nn.functional.gelu(x.double())
    for low, high in ((-3e38, -5), (-5, -1), (-1, 0), (0, 1), (1, 3e38)):
        here = (x >= low) & (x <= high)
        error, eagers = ((y[here] - exact[here]).abs().max() for y in (actual, torch.nn.functional.gelu(x)))
        assert error <= 1.1 * eagers, (low, high)
    beyond = torch.tensor([math.nan, math.inf, -0.0]).bfloat16()
    found = torch.compile(torch.nn.functional.gelu, backend="cuesta")(beyond)
    assert found[0].isnan() and found[1] == math.inf and found[2].signbit()


def test_every_bf16(check_op: Callable[..., None]) -> None:
    # AVX512-BF16 has instructions that turn denormals into zeros; eager does not use them.
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.bfloat16)
    check_op("convert", [x], [(tuple(x.shape), "f32")])
    check_op("mul", [x, torch.ones(1).bfloat16()], [(tuple(x.shape), "bf16")])
    check_op("where", [x > 0, x, x], [(tuple(x.shape), "bf16")])
