"""Computes powf of f64 as 2^(y log2 |x|), with the logarithm and its product with y in two doubles."""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.double.exponential import exp2_of_sum
from cuesta.lowering.loops_to_llvm.expand_math.double.logarithm import split
from cuesta.lowering.loops_to_llvm.expand_math.double.sums import ordered_sum, product
from cuesta.lowering.loops_to_llvm.expand_math.power import with_sign

_INF = float("inf")

# log2((1 + s) / (1 - s)) / s in powers of s^2: the first two coefficients in two doubles, then the others. 2^-66.3 of
# the logarithm.
_FIRST = (2.8853900817779268, 4.0710547481862066e-17)
_SECOND = (0.9617966939259756, 5.0577616648125907e-17)
_LOG2 = (
    0.1903789434862939,
    0.1912558874664706,
    0.2219839652767408,
    0.26230770186032737,
    0.3205989022648052,
    0.41219858309199114,
    0.5770780163556178,
)


def _log2(b: Builder, a: Value) -> tuple[Value, Value]:
    """log2 of a positive finite number to 2^-66, in two doubles.

    With s = f / (2 + f), log2 is n + s (c0 + s^2 (c1 + s^2 (...))); all but the inner polynomial is in two doubles.
    """
    n, f = split(b, a)
    divisor, lost = ordered_sum(b, 2.0, f)
    inverse = b.div(1.0, divisor)
    s = b.mul(f, inverse)
    rest = b.fma(b.neg(s), lost, b.fma(b.neg(s), divisor, f))
    s_low = b.mul(rest, inverse)
    square = b.mul(s, s)
    square_low = b.fma(b.mul(s, 2.0), s_low, b.fma(s, s, b.neg(square)))

    inner, inner_low = ordered_sum(b, _SECOND[0], b.mul(square, b.balanced_poly(square, _LOG2)))
    outer, outer_low = product(b, (square, square_low), (inner, b.add(inner_low, _SECOND[1])))
    factor, factor_low = ordered_sum(b, _FIRST[0], outer)
    factor_low = b.add(factor_low, b.add(outer_low, _FIRST[1]))
    high, low = product(b, (s, s_low), (factor, factor_low))
    y, y_low = ordered_sum(b, n, high)
    return y, b.add(y_low, low)


def powf(b: Builder, x: Value, y: Value) -> Value:
    a = b.abs(x)
    log, log_low = _log2(b, a)
    finite = b.less(a, _INF)
    log = b.select(finite, log, a)
    log = b.select(b.equal(a, 0.0), -_INF, log)
    # 1 to any power, and any number to the power 0, is 1, even for NaN and infinity.
    is_one = b.either(b.equal(a, 1.0), b.equal(y, 0.0))
    high = b.mul(log, y)
    low = b.fma(log_low, y, b.fma(log, y, b.neg(high)))
    magnitude = b.select(is_one, 1.0, exp2_of_sum(b, high, low))
    return with_sign(b, x, y, magnitude)
