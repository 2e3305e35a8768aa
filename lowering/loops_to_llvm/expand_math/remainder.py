"""Computes remf (C's fmod) of f32 exactly: subtracts multiples of the divisor in f64, 48 quotient bits per step."""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

#: Quotient bits per step. With so few, the estimated multiple is off by less than one divisor.
_BITS = 48
#: The largest quotient of two f32 is below 2^277.
_STEPS = 6


def remf(b: Builder, x: Value, y: Value) -> Value:
    """x - trunc(x / y) * y. Every difference is a multiple of an f32's last place and at most the divisor, so no FMA
    rounds."""
    a, d = b.widen(b.abs(x)), b.widen(b.abs(y))
    inverse = b.div(1.0, d)
    rest = a
    for step in reversed(range(_STEPS)):
        scale = 2.0 ** (_BITS * step)
        whole = b.round(b.mul(rest, b.mul(inverse, 1 / scale)))
        rest = b.fma(b.neg(whole), b.mul(d, scale), rest)
    rest = b.select(b.less(rest, 0.0), b.add(rest, d), rest)
    # 0 times infinity is NaN, but the remainder of a finite number by infinity is the number itself.
    infinity = float("inf")
    rest = b.select(b.both(b.equal(d, infinity), b.less(a, infinity)), a, rest)
    return b.copysign(b.narrow(rest), x)
