"""Computes sinh and cosh from e^x / 2, and asinh, acosh and atanh from log1p, of f32 and f64.

The coefficients for f32 are computed like those of exponential.py, those for f64 by tools/minimax.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math import exponential, logarithm
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, ByWidth, Value
from cuesta.lowering.loops_to_llvm.expand_math.double import exponential as double_exponential
from cuesta.lowering.loops_to_llvm.expand_math.double import logarithm as double_logarithm

_NAN = float("nan")
_LN2 = 0.6931471805599453
#: For larger numbers, adding 1 to their square does not change it.
_LARGE = ByWidth(1e8, 1e17)
_HALF_EXP = ByWidth(exponential.half_exp, double_exponential.half_exp)
_LOG1P = ByWidth(logarithm.log1p, double_logarithm.log1p)

# (sinh(t) / t - 1) / t^2 in powers of t^2 on t <= 1: sinh to 2^-31.6 and 2^-63.0.
_SINH = ByWidth(
    (2.7822131869470468e-06, 0.00019842895562760532, 0.00833331048488617, 0.1666666716337204),
    (
        6.475835806716559e-15,
        7.503248923050178e-13,
        1.6061339368340844e-10,
        2.505208941162096e-08,
        2.755731931009361e-06,
        0.00019841269841061157,
        0.008333333333333573,
        0.16666666666666666,
    ),
)


def sinh(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    square = b.mul(a, a)
    small = b.fma(b.mul(a, square), b.poly(square, _SINH.of(x)), a)
    half = _HALF_EXP.of(x)(b, a)
    large = b.sub(half, b.div(0.25, half))
    return b.copysign(b.select(b.less(a, 1.0), small, large), x)


def cosh(b: Builder, x: Value) -> Value:
    half = _HALF_EXP.of(x)(b, b.abs(x))
    return b.add(half, b.div(0.25, half))


def _log1p_or_log_of_double(b: Builder, large: Value, a: Value, rest: Value) -> Value:
    """log(2 a) if `large`, else log1p(rest)."""
    y = _LOG1P.of(a)(b, b.select(large, a, rest))
    return b.add(y, b.select(large, b.const(_LN2, a.type), 0.0))


def asinh(b: Builder, x: Value) -> Value:
    """log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))."""
    a = b.abs(x)
    square = b.mul(a, a)
    rest = b.add(a, b.div(square, b.add(b.sqrt(b.add(square, 1.0)), 1.0)))
    y = _log1p_or_log_of_double(b, b.less(_LARGE.of(x), a), a, rest)
    return b.copysign(y, x)


def acosh(b: Builder, x: Value) -> Value:
    """log1p(t + sqrt(t^2 + 2 t)) with t = x - 1."""
    t = b.sub(x, 1.0)
    rest = b.add(t, b.sqrt(b.fma(t, t, b.mul(t, 2.0))))
    y = _log1p_or_log_of_double(b, b.less(_LARGE.of(x), x), x, rest)
    return b.select(b.less(x, 1.0), _NAN, y)


def atanh(b: Builder, x: Value) -> Value:
    """log1p(2 a / (1 - a)) / 2."""
    a = b.abs(x)
    y = b.mul(_LOG1P.of(x)(b, b.div(b.mul(a, 2.0), b.sub(1.0, a))), 0.5)
    return b.copysign(y, x)
