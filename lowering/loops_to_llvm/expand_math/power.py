"""Computes powf of f32, and rsqrt."""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double.logarithm import split_normal
from cuesta.lowering.loops_to_llvm.expand_math.exponential import exp2_scaled

_INF = float("inf")
_NAN = float("nan")
_MAGIC = 6755399441055744.0  # 1.5 * 2^52
_SCALE_MAGIC = _MAGIC + 127.0  # leaves a biased float exponent in the low bits

# log2(1 + f) / f for 1 + f in [sqrt(1/2), sqrt(2)), in f64: 2^-35.9. The product with y is at most
# 150 where it matters, so 2^x sees an error below 2^-28.
_LOG2 = (
    0.07737063986062441,
    -0.1428396108400136,
    0.1447484742247036,
    -0.14315640162243615,
    0.1587697876085016,
    -0.1803006057120294,
    0.2061753607736395,
    -0.24045316545036444,
    0.2885372934254444,
    -0.3606736748298392,
    0.48089836139602415,
    -0.7213475208687473,
    1.4426950408687043,
)


def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x) by an exactly rounded root and division, as in eager. Signed zeros and NaN come out right."""
    return b.div(1.0, b.sqrt(x))


def _log2(b: Builder, a: Value) -> Value:
    """log2 of a non-negative f32, computed in f64, in which denormals of f32 are normal."""
    n, f = split_normal(b, b.widen(a))
    return b.fma(f, b.poly(f, _LOG2), n)


def powf(b: Builder, x: Value, y: Value) -> Value:
    """|x|^y = 2^(y log2 |x|), the product in f64; then the sign and the special cases of IEEE 754 pow."""
    a = b.abs(x)
    finite = b.less(a, _INF)
    log = b.select(finite, _log2(b, a), b.widen(a))
    log = b.select(b.equal(a, 0.0), -_INF, log)
    # 1 to any power, and any number to the power 0, is 1, even for NaN and infinity.
    is_one = b.either(b.equal(a, 1.0), b.equal(y, 0.0))
    z = b.select(is_one, 0.0, b.mul(log, b.widen(y)))
    z = b.at_least(b.at_most(z, 200.0), -200.0)
    shifted = b.fma(z, 0.5, _SCALE_MAGIC)
    r = b.narrow(b.fma(b.sub(shifted, _SCALE_MAGIC), -2.0, z))
    scale = b.from_bits(b.shift_left(b.low_word(b.bits(shifted)), 23))
    return with_sign(b, x, y, exp2_scaled(b, r, scale))


def with_sign(b: Builder, x: Value, y: Value, magnitude: Value) -> Value:
    """x^y from |x|^y. For negative x, the result is negative if y is odd, and NaN if y is no integer."""
    is_integer = b.equal(y, b.trunc(y))
    half = b.mul(y, 0.5)
    is_even = b.equal(half, b.trunc(half))
    is_odd = b.both(is_integer, b.invert(is_even))
    signed = b.select(is_odd, b.copysign(magnitude, x), magnitude)
    no_real_result = b.both(b.both(b.less(x, 0.0), b.less(-_INF, x)), b.invert(is_integer))
    return b.select(no_real_result, _NAN, signed)
