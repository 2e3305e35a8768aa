"""Computes exp, exp2, expm1 and tanh of f32.

The coefficients are minimax in relative error. They are computed by Lawson's reweighted least squares in double
precision, and rounded to float from the low order up, refitting the rest after each. Comments state a table's error.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

# Adding 1.5 * 2^23 rounds a float to an integer and leaves it in the low bits of the significand,
# with no conversion that is undefined for NaN. The further 127 makes those bits a biased exponent.
_MAGIC = 12582912.0 + 127.0
_LOG2_E = 1.4426950408889634
# 2 ln 2 in two floats (Cody and Waite).
_TWO_LN2 = (1.3862943649291992, -3.809308424251867e-09)
_LN2 = (0.6931471824645996, -1.9046542121259336e-09)

# e^r on |r| <= ln 2: 2^-26.0.
_EXP = (
    0.00019613455515354872,
    0.0014106436865404248,
    0.00833611749112606,
    0.04166116565465927,
    0.16666613519191742,
    0.5000003576278687,
    1.0,
    1.0,
)
# 2^r on |r| <= 1: 2^-26.1.
_EXP2_WIDE = (
    1.4934562386770267e-05,
    0.0001564646081533283,
    0.0013341443846002221,
    0.009616835042834282,
    0.05550367012619972,
    0.24022668600082397,
    0.6931472420692444,
    1.0,
)
# 2^r on |r| <= 1/2: 2^-23.0, for results that are added to something larger.
_EXP2_SHORT = (
    0.0013416250003501773,
    0.009680361486971378,
    0.05550297349691391,
    0.24021993577480316,
    0.6931472420692444,
    1.0000001192092896,
)
# (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, weighted for e^r - 1: 2^-26.1.
_EXPM1 = (
    0.0013870983384549618,
    0.008366473950445652,
    0.04166743531823158,
    0.1666654497385025,
    0.4999999701976776,
)
# (tanh(a) / a - 1) / a^2 in powers of a^2 on a <= 0.625: 2^-27.7.
_TANH_SMALL = (
    -0.005692296661436558,
    0.02062816731631756,
    -0.05373651534318924,
    0.13331405818462372,
    -0.3333328068256378,
)


def power_of_two(b: Builder, shifted: Value) -> Value:
    """2^n as a float, from n + _MAGIC."""
    return b.from_bits(b.shift_left(b.bits(shifted), 23))


def exp(b: Builder, x: Value) -> Value:
    """e^x = (p * 2^m) * 2^m, with m = round(x / (2 ln 2)).

    The even split keeps 2^m normal even if the result is not, so overflow and gradual underflow arise in the last
    product, with one rounding. The split costs one degree of the polynomial and no integer ops. Below -175.4, which
    occurs in a masked softmax, 2^m itself is zero: a product that underflows takes a processor some 150 cycles.
    """
    scaled, scale = _exp_in_two(b, b.at_least(b.at_most(x, 89.0), -176.0))
    return b.mul(scaled, scale)


def half_exp(b: Builder, x: Value) -> Value:
    """e^x / 2 for x >= 0; finite whenever sinh x and cosh x are."""
    scaled, scale = _exp_in_two(b, b.at_most(x, 90.0))
    return b.mul(scaled, b.mul(scale, 0.5))


def _exp_in_two(b: Builder, x: Value) -> tuple[Value, Value]:
    """p * 2^m and 2^m, whose product is e^x."""
    shifted = b.fma(x, _LOG2_E / 2, _MAGIC)
    m = b.sub(shifted, _MAGIC)
    r = b.fma(m, -_TWO_LN2[1], b.fma(m, -_TWO_LN2[0], x))
    scale = power_of_two(b, shifted)
    return b.mul(b.poly(r, _EXP), scale), scale


def exp2(b: Builder, x: Value) -> Value:
    """2^x, split as in exp. Here the reduction is exact."""
    x = b.at_least(b.at_most(x, 129.0), -254.0)
    shifted = b.fma(x, 0.5, _MAGIC)
    r = b.fma(b.sub(shifted, _MAGIC), -2.0, x)
    return exp2_scaled(b, r, power_of_two(b, shifted))


def exp2_scaled(b: Builder, r: Value, scale: Value) -> Value:
    """2^r * scale^2 for |r| <= 1."""
    return b.mul(b.mul(b.poly(r, _EXP2_WIDE), scale), scale)


def exp2_short(b: Builder, x: Value) -> tuple[Value, Value]:
    """2^x to 2^-22 as the two factors p and 2^n, for -125 < x < 127."""
    shifted = b.add(x, _MAGIC)
    r = b.sub(x, b.sub(shifted, _MAGIC))
    return b.poly(r, _EXP2_SHORT), power_of_two(b, shifted)


def expm1(b: Builder, x: Value) -> Value:
    """e^x - 1 = 2 * (s p + (s - 1/2)), with s = 2^(n-1) and p = e^r - 1.

    The scale is halved because n reaches 128 before the result overflows, and 2^128 is not a float.
    """
    clamped = b.at_least(b.at_most(x, 89.0), -20.0)
    shifted = b.fma(clamped, _LOG2_E, _MAGIC - 1.0)
    n = b.sub(shifted, _MAGIC - 1.0)
    r = b.fma(n, -_LN2[1], b.fma(n, -_LN2[0], clamped))
    square = b.mul(r, r)
    p = b.fma(square, b.poly(r, _EXPM1), r)
    scale = power_of_two(b, shifted)
    y = b.mul(b.fma(scale, p, b.sub(scale, 0.5)), 2.0)
    # For tiny x the result is x. This keeps -0.0 and the last bit of denormals, which the halved scale would drop.
    return b.select(b.less(square, 1e-30), x, y)


def tanh(b: Builder, x: Value) -> Value:
    """An odd polynomial below 0.625, 1 - 2 / (e^2a + 1) above."""
    a = b.abs(x)
    clamped = b.at_most(a, 10.0)
    shifted = b.fma(clamped, 2 * _LOG2_E, _MAGIC)
    r = b.fma(clamped, 2 * _LOG2_E, b.sub(_MAGIC, shifted))
    denominator = b.fma(b.poly(r, _EXP2_SHORT), power_of_two(b, shifted), 1.0)
    large = b.sub(1.0, b.div(2.0, denominator))
    square = b.mul(a, a)
    small = b.fma(b.mul(a, square), b.poly(square, _TANH_SMALL), a)
    return b.copysign(b.select(b.less(a, 0.625), small, large), x)
