"""sin, cos and tan, with the argument reduced in f64.

The reduction subtracts n pi from the exact argument with pi in two doubles (Cody and Waite, 106
bits). The first product cancels exactly while n is the nearest integer, that is for |x| up to about
1e14; beyond, sin and cos are still clamped to [-1, 1] but lose their meaning. f64 halves
the vector width for these few ops only; a rare branch would keep the loop from being vectorised.
The coefficients are computed as those of exponential.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

# 1.5 * 2^52 rounds a double to an integer, whose low bits stay in the significand.
_MAGIC = 6755399441055744.0
_PI = (3.141592653589793, 1.2246467991473532e-16)
_HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
_SIGN_SHIFT = 63

# (sin(r) / r - 1) / r^2 in powers of r^2 on |r| <= pi/2: sin to 2^-27.2.
_SIN = (2.6060538402816746e-06, -0.00019809768127743155, 0.008333069272339344, -0.16666659712791443)
# sin(r) / r and cos(r) in powers of r^2 on |r| <= pi/4: 2^-27.9 and 2^-33.0.
_SIN_NARROW = (-0.000195179003640078, 0.008332187309861183, -0.16666655242443085, 1.0)
_COS_NARROW = (2.4432327336398885e-05, -0.0013887309469282627, 0.04166664555668831, -0.5, 1.0)


def _subtract(b: Builder, x: Value, n: Value, unit: tuple[float, float]) -> Value:
    """x - n * unit; keeps the sign of a zero x, as both parts of the unit are positive."""
    return b.fma(n, -unit[1], b.fma(n, -unit[0], x))


def _sine(b: Builder, r: Value, parity: Value) -> Value:
    """sin(r) in f32, negated where the low bit of `parity` is set; |r| <= pi/2, in f64."""
    r = b.narrow(b.from_bits(b.xor(b.bits(r), b.shift_left(parity, _SIGN_SHIFT))))
    square = b.mul(r, r)
    y = b.fma(b.mul(r, square), b.poly(square, _SIN), r)
    # Rounding may reach just above 1. The sign is put back because -0.0 + 0.0 is 0.0.
    return b.copysign(b.at_most(b.abs(y), 1.0), r)


def sin(b: Builder, x: Value) -> Value:
    """(-1)^n sin(x - n pi)."""
    wide = b.widen(x)
    shifted = b.fma(wide, 1 / _PI[0], _MAGIC)
    r = _subtract(b, wide, b.sub(shifted, _MAGIC), _PI)
    return _sine(b, r, b.bits(shifted))


def cos(b: Builder, x: Value) -> Value:
    """(-1)^n sin(x - (n - 1/2) pi), from cos x = sin(x + pi/2)."""
    wide = b.widen(x)
    shifted = b.add(b.fma(wide, 1 / _PI[0], 0.5), _MAGIC)
    r = _subtract(b, wide, b.sub(b.sub(shifted, _MAGIC), 0.5), _PI)
    return _sine(b, r, b.bits(shifted))


def tan(b: Builder, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r after an odd number of quarter turns."""
    wide = b.widen(x)
    shifted = b.fma(wide, 1 / _HALF_PI[0], _MAGIC)
    r = b.narrow(_subtract(b, wide, b.sub(shifted, _MAGIC), _HALF_PI))
    square = b.mul(r, r)
    sine = b.mul(r, b.poly(square, _SIN_NARROW))
    cosine = b.poly(square, _COS_NARROW)
    odd = b.is_odd(b.low_word(b.bits(shifted)))
    return b.div(b.select(odd, cosine, sine), b.select(odd, b.neg(sine), cosine))
