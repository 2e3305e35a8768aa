"""sinh and cosh from half an exponential, asinh, acosh and atanh from log1p.

The coefficients are computed as those of exponential.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.exponential import half_exp
from cuesta.lowering.loops_to_llvm.expand_math.logarithm import log1p

_NAN = float("nan")
_LN2 = 0.6931471824645996
#: Above it 1 is nothing beside the square of a number.
_LARGE = 1e8

# (sinh(t) / t - 1) / t^2 in powers of t^2 on t <= 1: sinh to 2^-31.6.
_SINH = (2.7822131869470468e-06, 0.00019842895562760532, 0.00833331048488617, 0.1666666716337204)


def sinh(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    square = b.mul(a, a)
    small = b.fma(b.mul(a, square), b.poly(square, _SINH), a)
    half = half_exp(b, a)
    large = b.sub(half, b.div(0.25, half))
    return b.copysign(b.select(b.less(a, 1.0), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    half = half_exp(b, b.abs(x))
    return b.add(half, b.div(0.25, half))


def _log1p_or_log_of_double(b: Builder, large: Value, a: Value, rest: Value) -> Value:
    """log(2 a) where `large`, log1p(rest) elsewhere."""
    return b.add(log1p(b, b.select(large, a, rest)), b.select(large, b.const(_LN2, a.type), 0.0))


def asinh(b: Builder, x: Value) -> Value:
    """log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))."""
    a = b.abs(x)
    square = b.mul(a, a)
    rest = b.add(a, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0)))
    y = _log1p_or_log_of_double(b, b.less(_LARGE, a), a, rest)
    return b.copysign(y, x)


def acosh(b: Builder, x: Value) -> Value:
    """log1p(t + sqrt(t^2 + 2 t)) with t = x - 1."""
    t = b.sub(x, 1.0)
    rest = b.add(t, b.sqrt(b.fma(t, t, b.mul(t, 2.0))))
    y = _log1p_or_log_of_double(b, b.less(_LARGE, x), x, rest)
    return b.select(b.less(x, 1.0), _NAN, y)


def atanh(b: Builder, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2."""
    a = b.abs(x)
    y = b.mul(log1p(b, b.div(b.mul(a, 2.0), b.sub(1.0, a))), 0.5)
    return b.copysign(y, x)
