"""Rows of sums, products, quotients and powers, minima and maxima."""

import math as pymath
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise, unary
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


def _sign(s: Scalar, x: Value) -> Value:
    zero, one = s.const(x, 0), s.const(x, 1)
    negative = s.const(x, 0) if s.unsigned else s.const(x, -1)
    positive_part = s.select(s.compare("gt", x, zero), one, zero)
    return s.select(s.compare("lt", x, zero), negative, positive_part)


def _floor_divide(s: Scalar, x: Value, y: Value) -> Value:
    if isinstance(x.type, ir.FloatType):
        # Python's floor division, step by step as ATen's div_floor_floating does it.
        remainder = arith.remf(x, y)
        quotient = s.div(s.sub(x, remainder), y)
        zero, one = s.const(x, 0), s.const(x, 1)
        differ = arith.xori(s.compare("lt", y, zero), s.compare("lt", remainder, zero))
        adjust = arith.andi(s.compare("ne", remainder, zero), differ)
        quotient = s.select(adjust, s.sub(quotient, one), quotient)
        floored = math.floor(quotient)
        floored = s.select(s.compare("gt", s.sub(quotient, floored), s.const(x, 0.5)), s.add(floored, one), floored)
        signed_zero = math.copysign(zero, s.div(x, y))
        rounded = s.select(s.compare("eq", quotient, zero), signed_zero, floored)
        return s.select(s.compare("eq", y, zero), s.div(x, y), rounded)
    return arith.divui(x, y) if s.unsigned else arith.floordivsi(x, y)


def _remainder(s: Scalar, x: Value, y: Value) -> Value:
    zero = s.const(x, 0)
    if s.unsigned:
        return arith.remui(x, y)
    r = arith.remf(x, y) if isinstance(x.type, ir.FloatType) else arith.remsi(x, y)
    differ = arith.xori(s.compare("lt", y, zero), s.compare("lt", r, zero))
    return s.select(arith.andi(s.compare("ne", r, zero), differ), s.add(r, y), r)


def _fmod(s: Scalar, x: Value, y: Value) -> Value:
    if isinstance(x.type, ir.FloatType):
        return arith.remf(x, y)
    return arith.remui(x, y) if s.unsigned else arith.remsi(x, y)


def _trunc_divide(s: Scalar, x: Value, y: Value) -> Value:
    if isinstance(x.type, ir.FloatType):
        return math.trunc(s.div(x, y))
    return arith.divui(x, y) if s.unsigned else arith.divsi(x, y)


def _larger(s: Scalar, x: Value, y: Value) -> Value:
    return arith.maxnumf(x, y) if isinstance(x.type, ir.FloatType) else s.maximum(x, y)


def _smaller(s: Scalar, x: Value, y: Value) -> Value:
    return arith.minnumf(x, y) if isinstance(x.type, ir.FloatType) else s.minimum(x, y)


def _hypot(s: Scalar, x: Value, y: Value) -> Value:
    """The larger operand times sqrt(1 + ratio²): no square overflows. Infinity beside a NaN gives infinity."""
    x, y = s.abs(x), s.abs(y)
    large, infinity = s.maximum(x, y), s.const(x, pymath.inf)
    ratio = s.div(s.minimum(x, y), large)
    length = s.mul(large, math.sqrt(s.add(s.const(x, 1), s.mul(ratio, ratio))))
    length = s.select(s.compare("eq", large, s.const(x, 0)), large, length)
    return s.select(arith.ori(s.compare("eq", x, infinity), s.compare("eq", y, infinity)), infinity, length)


def _gcd(s: Scalar, x: Value, y: Value) -> Value:
    """Euclid's algorithm, of the absolute values."""

    def step(x: Value, y: Value) -> tuple[Value, Value]:
        return (arith.remui(y, x) if s.unsigned else arith.remsi(y, x)), x

    return s.repeat(lambda x, y: s.compare("ne", x, s.const(x, 0)), step, s.abs(x), s.abs(y))[1]


def _lcm(s: Scalar, x: Value, y: Value) -> Value:
    """|x / gcd · y|; narrow integers are computed in 32 bits, as in C++."""
    narrow = x.type
    if narrow.width < 32:
        x, y = (s.convert(v, ir.IntegerType.get_signless(32)) for v in (x, y))
    divisor, zero = _gcd(s, x, y), s.const(x, 0)
    none = s.compare("eq", divisor, zero)
    quotient = _trunc_divide(s, x, s.select(none, s.const(x, 1), divisor))
    return s.convert(s.select(none, zero, s.abs(s.mul(quotient, y))), narrow)


def _pow(s: Scalar, x: Value, y: Value) -> Value:
    return math.powf(x, y)


def _whole_power(s: Scalar, x: Value, y: Value) -> Value:
    """x ** y of integers by repeated squaring, which wraps. For y < 0 the quotient 1 / x ** -y, rounded towards 0."""
    zero, one = s.const(x, 0), s.const(x, 1)

    def is_odd(number: Value) -> Value:
        return s.compare("ne", arith.andi(number, one), zero)

    def step(power: Value, square: Value, left: Value) -> tuple[Value, Value, Value]:
        power = s.select(is_odd(left), s.mul(power, square), power)
        return power, s.mul(square, square), arith.shrui(left, one)

    power, _, _ = s.repeat(lambda power, square, left: s.compare("gt", left, zero), step, one, x, y)
    if s.unsigned:
        return power
    minus = s.const(x, -1)
    sign = s.select(s.compare("eq", x, minus), s.select(is_odd(y), minus, one), zero)
    quotient = s.select(s.compare("eq", x, one), one, sign)
    return s.select(s.compare("lt", y, zero), quotient, power)


def _whole_power_reference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    if x.is_floating_point() or x.dtype == torch.bool:
        raise TypeError("whole_power is of integers")
    return torch.pow(x, y)


ROWS: tuple[Pointwise, ...] = (
    Pointwise("add", 2, lambda s, x, y: s.add(x, y), torch.add),
    Pointwise("sub", 2, lambda s, x, y: s.sub(x, y), torch.sub),
    Pointwise("mul", 2, lambda s, x, y: s.mul(x, y), torch.mul),
    Pointwise("div", 2, lambda s, x, y: s.div(x, y), torch.div, "float", cost=4),
    Pointwise("floor_divide", 2, _floor_divide, torch.floor_divide, cost=10),
    Pointwise("remainder", 2, _remainder, torch.remainder, cost=10),
    Pointwise("fmod", 2, _fmod, torch.fmod, cost=10),
    Pointwise("trunc_divide", 2, _trunc_divide, lambda x, y: torch.div(x, y, rounding_mode="trunc"), cost=8),
    Pointwise("neg", 1, lambda s, x: s.neg(x), torch.neg),
    Pointwise("abs", 1, lambda s, x: s.abs(x), torch.abs),
    Pointwise("sign", 1, _sign, torch.sign, cost=2),
    Pointwise("maximum", 2, lambda s, x, y: s.maximum(x, y), torch.maximum),
    Pointwise("minimum", 2, lambda s, x, y: s.minimum(x, y), torch.minimum),
    Pointwise("fmax", 2, _larger, torch.fmax),
    Pointwise("fmin", 2, _smaller, torch.fmin),
    Pointwise("gcd", 2, _gcd, torch.gcd, "integer", cost=100, repeats=True),
    Pointwise("lcm", 2, _lcm, torch.lcm, "integer", cost=110, repeats=True),
    Pointwise("copysign", 2, lambda s, x, y: math.copysign(x, y), torch.copysign, "float"),
    Pointwise("hypot", 2, _hypot, torch.hypot, "float", cost=12),
    Pointwise("reciprocal", 1, lambda s, x: s.div(s.const(x, 1), x), torch.reciprocal, "float", cost=4),
    Pointwise("square", 1, lambda s, x: s.mul(x, x), torch.square),
    Pointwise("sqrt", 1, unary(math.sqrt), torch.sqrt, "float", cost=4),
    Pointwise("rsqrt", 1, unary(math.rsqrt), torch.rsqrt, "float", cost=6),
    Pointwise("pow", 2, _pow, torch.pow, "float", cost=30),
    Pointwise("whole_power", 2, _whole_power, _whole_power_reference, cost=60, repeats=True),
)
