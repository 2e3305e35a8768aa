"""Computes log, log2, log10 and log1p of f64: x = 2^n (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)). log(1 + f) is an odd
function of s = f / (2 + f) (as in FreeBSD's e_log.c).
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double.exponential import BIAS, MAGIC, power_of_two
from cuesta.lowering.loops_to_llvm.expand_math.double.sums import exact_sum, ordered_sum
from cuesta.lowering.loops_to_llvm.expand_math.logarithm import at_the_edges

_SQRT_HALF = 0x3FE6A09E667F3BCD
_ONE = 0x3FF0000000000000
_SIGNIFICAND = 0x000FFFFFFFFFFFFF
_TWO_52 = 0x4330000000000000
_SMALLEST_NORMAL = 2.0**-1022

_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)
_LOG10_E = (0.4342944819032518, 1.098319650216765e-17)
# The high part ends in zero bits, so that its product with an exponent is exact.
_LOG10_2 = (0.30102999566383914, 1.42050232272661e-13)

# (log((1 + s) / (1 - s)) / s - 2) / s^2 in powers of s^2: 2^-59.5 of the logarithm.
_LOG = (
    0.14795368232854034,
    0.15314110412603185,
    0.1818356190725077,
    0.22222198621554398,
    0.28571428741893695,
    0.3999999999941704,
    0.6666666666666734,
)


def split_normal(b: Builder, x: Value) -> tuple[Value, Value]:
    """n and f for a positive normal x; undefined for other x."""
    offset = b.iadd(b.bits(x), _ONE - _SQRT_HALF)
    # Converts the biased exponent e to a double by the bits of 2^52 + e, because AVX2 has no conversion from i64.
    exponent = b.from_bits(b.either(b.shift_right_unsigned(offset, 52), _TWO_52))
    f = b.sub(b.from_bits(b.iadd(b.both(offset, _SIGNIFICAND), _SQRT_HALF)), 1.0)
    return b.sub(exponent, 2.0**52 + 1023.0), f


def split(b: Builder, x: Value) -> tuple[Value, Value]:
    denormal = b.less(x, _SMALLEST_NORMAL)
    n, f = split_normal(b, b.select(denormal, b.mul(x, 2.0**54), x))
    return b.select(denormal, b.sub(n, 54.0), n), f


def _correction(b: Builder, f: Value, half_square: Value) -> Value:
    """log(1 + f) - f + f^2 / 2."""
    s = b.div(f, b.add(f, 2.0))
    square = b.mul(s, s)
    return b.mul(s, b.fma(square, b.balanced_poly(square, _LOG), half_square))


def _log(b: Builder, n: Value, f: Value) -> Value:
    half_square = b.mul(b.mul(f, 0.5), f)
    low = b.fma(n, _LN2[1], _correction(b, f, half_square))
    return b.fma(n, _LN2[0], b.sub(f, b.sub(half_square, low)))


def log(b: Builder, x: Value) -> Value:
    return at_the_edges(b, x, _log(b, *split(b, x)))


def _log_to_base(b: Builder, f: Value, inverse: tuple[float, float]) -> tuple[Value, Value]:
    """log(1 + f) * `inverse`, both in two doubles."""
    half = b.mul(f, -0.5)
    high = b.fma(half, f, f)
    low = b.add(b.fma(half, f, b.sub(f, high)), _correction(b, f, b.neg(b.mul(half, f))))
    y = b.mul(high, inverse[0])
    lost = b.fma(high, inverse[0], b.neg(y))
    return y, b.add(lost, b.fma(high, inverse[1], b.mul(low, inverse[0])))


def _plus_whole(b: Builder, whole: Value, high: Value, low: Value) -> Value:
    """whole + high + low, where whole is 0 or exceeds the others."""
    y, lost = ordered_sum(b, whole, high)
    return b.add(y, b.add(lost, low))


def log2(b: Builder, x: Value) -> Value:
    n, f = split(b, x)
    return at_the_edges(b, x, _plus_whole(b, n, *_log_to_base(b, f, _LOG2_E)))


def log10(b: Builder, x: Value) -> Value:
    n, f = split(b, x)
    high, low = _log_to_base(b, f, _LOG10_E)
    y = _plus_whole(b, b.mul(n, _LOG10_2[0]), high, b.fma(n, _LOG10_2[1], low))
    return at_the_edges(b, x, y)


def log1p(b: Builder, x: Value) -> Value:
    """log of u = 1 + x, where f is corrected for the rounding error of u, divided by 2^n."""
    u, lost = exact_sum(b, 1.0, x)
    n, f = split_normal(b, u)
    # 0 from n = 1023 on, where u has no rounding error.
    scale = power_of_two(b, b.sub(MAGIC + BIAS, b.at_most(n, 1023.0)))
    y = _log(b, n, b.fma(lost, scale, f))
    return b.copysign(at_the_edges(b, u, y), x)
