"""Pointwise import rules: rows by name, the exceptions, dtype promotion, Python numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cuesta.torch_versions import installed

aten = torch.ops.aten
Check = Callable[..., Any]


def floats(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


X, Y, ROW, COL, ONE = floats(4, 6), floats(4, 6).flip(0), floats(6), floats(4, 1), floats()
HALF, BRAIN, DOUBLE = X.half(), X.bfloat16(), X.double()
WHOLE = torch.arange(-12, 12).reshape(4, 6)
FLAGS, BYTES = X > 0, (WHOLE + 12).to(torch.uint8)
SPECIAL = torch.tensor(
    [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 1, -1, 2.5, -2.5, 0.5, -0.5, 3e38, -3e38, 100, -100]
)

OPERANDS = {
    "broadcast": (COL, ROW),
    "scalar tensor": (X, ONE),
    "scalar tensor of a wider type": (BRAIN, ONE.double()),
    "int and float": (X, WHOLE),
    "int and bool": (WHOLE, FLAGS),
    "narrow and wide": (BRAIN, DOUBLE),
    "narrow floats": (HALF, BRAIN),
    "small ints": (BYTES, WHOLE.to(torch.int8)),
    "ints": (WHOLE.int(), WHOLE),
    "bools": (FLAGS, Y > 0),
    "special": (SPECIAL, SPECIAL.flip(0)),
    "number": (X, 2.5),
    "whole number": (WHOLE, 3),
    "fraction for an int": (WHOLE, 2.5),
    "number for a narrow float": (BRAIN, 0.3),
    "negative": (WHOLE, -3),
    "bool number": (WHOLE, True),
    "number that wraps": (BYTES, 300),
    "true for floats": (X, True),
}
BINARY = (
    *(torch.add, torch.sub, torch.mul, torch.div, torch.floor_divide, torch.remainder, torch.maximum, torch.pow),
    *(torch.eq, torch.lt, torch.ge, torch.bitwise_and, torch.logical_and, torch.logical_xor),
)


@pytest.mark.parametrize("operands", OPERANDS.values(), ids=OPERANDS.keys())
def test_promotion(operands: tuple[Any, Any], matches_eager: Check, accepted: Check) -> None:
    x, y = operands
    tensors = [v for v in operands if isinstance(v, torch.Tensor)]
    ops = accepted(BINARY, x, y)
    assert len(ops) > 5
    matches_eager(lambda x, y=y: {op.__name__: op(x, y) for op in ops}, *tensors)


UNARY = (
    *(torch.neg, torch.abs, torch.sign, torch.sqrt, torch.exp, torch.sigmoid, torch.floor, torch.round, torch.isnan),
    *(torch.isfinite, torch.relu, torch.logical_not, torch.square, torch.reciprocal, torch.isinf),
)


@pytest.mark.parametrize("x", [SPECIAL, BRAIN, WHOLE, BYTES, FLAGS], ids=["special", "bf16", "int", "uint8", "bool"])
def test_unary_on_every_kind(x: torch.Tensor, matches_eager: Check, accepted: Check) -> None:
    ops = accepted(UNARY, x)
    assert len(ops) > 8
    matches_eager(lambda x: {op.__name__: op(x) for op in ops}, x)


DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int32),
    *(torch.int16, torch.int8, torch.uint8, torch.bool),
)


@pytest.mark.parametrize("x", [X, BRAIN, WHOLE, BYTES, FLAGS], ids=["f32", "bf16", "int", "uint8", "bool"])
def test_conversion(x: torch.Tensor, matches_eager: Check) -> None:
    # Positive values only: what a negative float is as uint8 differs from one eager kernel to another.
    matches_eager(lambda x: [x.to(dtype) for dtype in DTYPES], x.abs() if x.dtype.is_floating_point else x)


CASES: dict[str, tuple[Any, ...]] = {
    "rsub": (lambda x: 5 - x, X),
    "rsub with alpha": (lambda x, y: torch.rsub(x, y, alpha=3), X, Y),
    "add with alpha": (lambda x, y: torch.add(x, y, alpha=2.5), X, Y),
    "add with alpha in bf16": (lambda x, y: torch.add(x, y, alpha=0.3), BRAIN, BRAIN.flip(0)),
    "integer add with alpha": (lambda x: torch.add(x, x, alpha=3), WHOLE),
    "bool add with alpha": (lambda x, y: torch.add(x, y, alpha=True), FLAGS, Y > 0),
    "sub with alpha": (lambda x, y: torch.sub(x, y, alpha=2), X, Y),
    "rdiv": (lambda x: 5 / x, WHOLE),
    "rpow": (lambda x: 2.5**x, X),
    "rfloordiv": (lambda x: 7 // x, X),
    "round to decimals": (lambda x: (torch.round(x, decimals=2), torch.round(x, decimals=-1)), X * 30),
    "round to decimals in narrow floats": (
        lambda x, y: (torch.round(x, decimals=2), torch.round(y, decimals=-1)),
        BRAIN * 30,
        HALF * 30,
    ),
    "where": (torch.where, FLAGS, X, Y),
    "where with a number": (lambda c, x: torch.where(c, x, 0.0), FLAGS, X),
    "where promotes": (torch.where, FLAGS, X, WHOLE),
    "where broadcasts": (torch.where, FLAGS[:, :1], ROW, ONE),
    "masked_fill": (lambda x, m: x.masked_fill(m, -math.inf), X, FLAGS),
    "masked_fill broadcasts": (lambda x, m: x.masked_fill(m, 3), X, FLAGS[0]),
    "masked_fill by a wider mask": (lambda x, m: aten.masked_fill(x, m, 1.0), ROW[None], FLAGS),
    "masked_fill of ints": (lambda x, m: x.masked_fill(m, 3), WHOLE, FLAGS),
    "masked_fill with a tensor": (lambda x, m, v: x.masked_fill(m, v), X, FLAGS, ONE),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), SPECIAL),
    "clamp from below": (lambda x: x.clamp(min=0), SPECIAL),
    "clamp_max": (lambda x: torch.clamp_max(x, 0.1), X),
    "clamp with crossed bounds": (lambda x: x.clamp(2, -2), X),
    "clamp between a number and NaN": (lambda x: (x.clamp(math.nan, 1), x.clamp(0, math.nan)), X),
    "clamp by tensors": (torch.clamp, X, ROW, Y),
    "clamp of ints by fractions": (lambda x: x.clamp(-2.5, 3.5), WHOLE),
    "clamp of ints by a float tensor": (lambda x, low: torch.clamp(x, min=low), WHOLE, ROW),
    "hardtanh": (F.hardtanh, SPECIAL),
    "hardtanh with bounds": (lambda x: F.hardtanh(x, -2, 0.5), X),
    "hardtanh with one bound": (lambda x: aten.hardtanh(x, -0.5), X),
    "hardswish": (F.hardswish, SPECIAL),
    "hardsigmoid": (F.hardsigmoid, SPECIAL),
    "gelu": (lambda x: F.gelu(x * 10), X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), SPECIAL),
    "gelu_backward": (lambda g, x: aten.gelu_backward(g, x, approximate="tanh"), X, Y),
    "leaky_relu": (lambda x: (F.leaky_relu(x), F.leaky_relu(x, 0.2), F.leaky_relu(x, -0.2)), SPECIAL),
    "elu and its kin": (lambda x: (F.elu(x), F.elu(x, 1.7), F.selu(x)), SPECIAL),
    "softplus": (lambda x: (F.softplus(x), F.softplus(x, 2, 3)), SPECIAL),
    "threshold_backward": (lambda g, x: aten.threshold_backward(g, x, 0), X[0], SPECIAL[:6]),
    "silu_backward": (aten.silu_backward, X, Y),
    "native_dropout_backward": (lambda g, m: aten.native_dropout_backward(g, m, 1.25), BRAIN, FLAGS),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), X, Y, ROW),
    "lerp": (lambda x, y, w: (torch.lerp(x, y, 0.1), torch.lerp(x, y, 0.75), torch.lerp(x, y, w)), X, Y, ROW),
    "lerp of narrow floats": (lambda x: torch.lerp(x, x.flip(0), 0.3), BRAIN),
    "fma": (lambda x, y, z: torch.ops.prims.fma(x, y, z), X, Y, X + Y),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z, value=2), X, Y, ROW),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_exception(case: tuple[Any, ...], matches_eager: Check) -> None:
    matches_eager(*case)


def test_clamp_by_nan(capture: Any) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.clamp(min=math.nan), x.clamp(max=math.nan)

    nothing = torch.full_like(X, math.nan)
    results = capture.compile(function)(X)
    torch.testing.assert_close(results, (nothing, nothing), equal_nan=True)
    # torch's documentation says NaN as well. Eager of 2.11 passes over a NaN that is the only bound.
    if installed() >= (2, 12):
        torch.testing.assert_close(results, function(X), equal_nan=True)


@pytest.mark.parametrize("exponent", [0.5, -0.5, -1, 2, 3, 4, 1, 0, 2.5, -2])
@pytest.mark.parametrize("x", [SPECIAL, BRAIN], ids=["special", "bf16"])
def test_power(x: torch.Tensor, exponent: float, matches_eager: Check) -> None:
    matches_eager(lambda x: x**exponent, x)


QUOTIENTS = {
    "tensors": (X, Y),
    "number": (X, 0.3),
    "special": (SPECIAL, SPECIAL.flip(0)),
    "narrow": (BRAIN, BRAIN.flip(1)),
    "narrow by a number": (BRAIN, 0.3),
    "ints by a number": (WHOLE, -3),
    "bytes by a number": (BYTES, 3),
}


@pytest.mark.parametrize("mode", ["floor", "trunc"])
@pytest.mark.parametrize("operands", QUOTIENTS.values(), ids=QUOTIENTS.keys())
def test_rounded_division(operands: tuple[Any, Any], mode: str, matches_eager: Check) -> None:
    x, y = operands
    if isinstance(y, torch.Tensor):
        matches_eager(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)
    else:
        matches_eager(lambda x: torch.div(x, y, rounding_mode=mode), x)


def test_number_is_not_rounded_to_a_narrow_float(matches_eager: Check) -> None:
    # bf16(0.3) is 0.30078: eager multiplies and divides by 0.3 itself.
    x = torch.arange(1, 400).mul(0.0373).bfloat16()
    matches_eager(lambda x: (x * 0.3, x / 0.3, x // 0.3), x, atol=0, rtol=0)
