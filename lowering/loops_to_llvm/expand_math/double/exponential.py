"""Computes exp, exp2, expm1 and tanh of f64."""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

#: 1.5 * 2^52: adding this rounds to an integer, which then is in the low bits of the significand.
MAGIC = 6755399441055744.0
#: The bias of an exponent, and the sum of the biases of two exponents.
BIAS = 1023.0
_TWICE = 2 * BIAS
_LOG2_E = 1.4426950408889634
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_EXPONENT = 0x7FF0000000000000
#: The exponent at which both results of _two_powers are 0, which occurs for e^x in a masked softmax: a product that
#: underflows takes a processor some 150 cycles.
_LOWEST = -2046.0

# (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, weighted for e^r - 1: 2^-61.6.
_EXPM1 = (
    2.089822652225936e-09,
    2.510864789686951e-08,
    2.755731503334039e-07,
    2.755724520889093e-06,
    2.4801587295680792e-05,
    0.00019841269885348235,
    0.0013888888888886496,
    0.008333333333321773,
    0.04166666666666669,
    0.16666666666666677,
    0.5,
)
# (tanh(a) / a - 1) / a^2 in powers of a^2 on a <= 0.55: 2^-60.6.
_TANH_SMALL = (
    -1.948757984018413e-05,
    8.330494807492202e-05,
    -0.00023337356270961975,
    0.0005884413537337338,
    -0.001455542088715256,
    0.0035920919137413954,
    -0.008863232589995329,
    0.021869488385164844,
    -0.05396825396373676,
    0.1333333333332658,
    -0.333333333333333,
)


def power_of_two(b: Builder, shifted: Value) -> Value:
    """2^n, which must be normal, from n + MAGIC + BIAS."""
    return b.from_bits(b.shift_left(b.bits(shifted), 52))


def _two_powers(b: Builder, shifted: Value) -> tuple[Value, Value]:
    """Two normal numbers whose product is 2^n, from n + MAGIC + 2 BIAS, |n| < 2044. With these, results overflow or
    become subnormal only in the last product, with one rounding."""
    bits = b.bits(shifted)
    first = b.both(b.shift_left(bits, 51), _EXPONENT)
    return b.from_bits(first), b.from_bits(b.isub(b.shift_left(bits, 52), first))


def less_one(b: Builder, r: Value) -> Value:
    """e^r - 1 for |r| <= ln(2) / 2."""
    return b.fma(b.mul(r, r), b.balanced_poly(r, _EXPM1), r)


def _scaled(b: Builder, r: Value, shifted: Value) -> Value:
    """2^n e^r, from n + MAGIC + 2 BIAS."""
    first, second = _two_powers(b, shifted)
    return b.mul(b.fma(less_one(b, r), first, first), second)


def _round(b: Builder, x: Value, bias: float) -> tuple[Value, Value]:
    """n + MAGIC + bias, and x - n * (high part of ln 2), which is exact, for the n nearest to x / ln 2."""
    shifted = b.fma(x, _LOG2_E, MAGIC + bias)
    return shifted, b.fma(b.sub(shifted, MAGIC + bias), -_LN2[0], x)


def _reduce(b: Builder, x: Value, bias: float) -> tuple[Value, Value]:
    """n + MAGIC + bias and x - n ln 2."""
    shifted, rest = _round(b, x, bias)
    return shifted, b.fma(b.sub(shifted, MAGIC + bias), -_LN2[1], rest)


def _reduce_binary(b: Builder, x: Value, bias: float) -> tuple[Value, Value]:
    """n + MAGIC + bias and (x - n) ln 2 for the n nearest to x."""
    shifted = b.add(x, MAGIC + bias)
    return shifted, b.mul(b.sub(x, b.sub(shifted, MAGIC + bias)), _LN2[0])


def exp(b: Builder, x: Value) -> Value:
    shifted, r = _reduce(b, b.at_least(b.at_most(x, 710.0), _LOWEST * _LN2[0]), _TWICE)
    return _scaled(b, r, shifted)


def half_exp(b: Builder, x: Value) -> Value:
    """e^x / 2 for x >= 0; finite whenever sinh x and cosh x are."""
    shifted, r = _reduce(b, b.at_most(x, 711.0), _TWICE)
    return _scaled(b, r, b.sub(shifted, 1.0))


def exp2(b: Builder, x: Value) -> Value:
    shifted, r = _reduce_binary(b, b.at_least(b.at_most(x, 1025.0), _LOWEST), _TWICE)
    return _scaled(b, r, shifted)


def exp2_of_sum(b: Builder, x: Value, low: Value) -> Value:
    """2^(x + low) of a number in two doubles. `low` is ignored if |x| is at least 1100."""
    low = b.select(b.less(b.abs(x), 1100.0), low, 0.0)
    shifted, r = _reduce_binary(b, b.at_least(b.at_most(x, 1025.0), _LOWEST), _TWICE)
    return _scaled(b, b.fma(low, _LN2[0], r), shifted)


def one_less_exp2(b: Builder, x: Value) -> Value:
    """1 - 2^x for -53 <= x <= 0."""
    shifted, r = _reduce_binary(b, x, BIAS)
    scale = power_of_two(b, shifted)
    return b.fma(b.neg(scale), less_one(b, r), b.sub(1.0, scale))


def expm1(b: Builder, x: Value) -> Value:
    """2 (s q + (s r + (s - 1/2))) with s = 2^(n-1) and r + q = e^r - 1.

    The scale is halved because n reaches 1024 before the result overflows, and 2^1024 is not a double.
    """
    bias = BIAS - 1.0
    shifted, rest = _round(b, b.at_least(b.at_most(x, 710.0), -40.0), bias)
    n = b.sub(shifted, MAGIC + bias)
    r = b.fma(n, -_LN2[1], rest)
    lost = b.fma(n, -_LN2[1], b.sub(rest, r))
    square = b.mul(r, r)
    q = b.fma(square, b.balanced_poly(r, _EXPM1), lost)
    scale = power_of_two(b, shifted)
    y = b.mul(b.fma(scale, q, b.fma(scale, r, b.sub(scale, 0.5))), 2.0)
    # For tiny x the result is x. This keeps -0.0 and the last bit of denormals, which the halved scale would drop.
    return b.select(b.less(square, 2.0**-108), x, y)


def tanh(b: Builder, x: Value) -> Value:
    """An odd polynomial up to tanh = 1/2, and 1 - 2 / (e^2a + 1) above."""
    a = b.abs(x)
    # tanh(20) rounds to 1.
    shifted, r = _reduce(b, b.mul(b.at_most(a, 20.0), 2.0), BIAS)
    scale = power_of_two(b, shifted)
    denominator = b.fma(less_one(b, r), scale, b.add(scale, 1.0))
    large = b.sub(1.0, b.div(2.0, denominator))
    square = b.mul(a, a)
    small = b.fma(b.mul(a, square), b.balanced_poly(square, _TANH_SMALL), a)
    return b.copysign(b.select(b.less(a, 0.55), small, large), x)
