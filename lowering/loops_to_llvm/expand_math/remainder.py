"""remf, C's fmod, exactly: whole multiples of the divisor are taken off in f64, 48 bits of the quotient at a time."""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

#: Bits of the quotient in a step. The estimated multiple is then less than one divisor off.
_BITS = 48
#: The largest quotient of two f32 is below 2^277.
_STEPS = 6


def remf(b: Builder, x: Value, y: Value) -> Value:
    """Every difference is a multiple of an f32's last place and no larger than the divisor, so no fma rounds."""
    a, d = b.widen(b.abs(x)), b.widen(b.abs(y))
    inverse = b.div(1.0, d)
    rest = a
    for step in reversed(range(_STEPS)):
        scale = 2.0 ** (_BITS * step)
        whole = b.round(b.mul(rest, b.mul(inverse, 1 / scale)))
        rest = b.fma(b.neg(whole), b.mul(d, scale), rest)
    rest = b.select(b.less(rest, 0.0), b.add(rest, d), rest)
    # 0 times infinity is NaN, but what is finite is its own remainder by infinity.
    infinity = float("inf")
    rest = b.select(b.both(b.equal(d, infinity), b.less(a, infinity)), a, rest)
    return b.copysign(b.narrow(rest), x)
