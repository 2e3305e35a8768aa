"""Computes sin, cos and tan of every f32, with the argument reduced in f64.

The reduction needs x / pi modulo 2, with about 56 bits after the binary point. A large x is a multiple of a power of
two, so the leading bits of 1 / pi, which only add multiples of 2, can be left out (Payne and Hanek). The remaining bits
depend on the exponent of x: five ranges of exponents each have a constant in two doubles. Selects choose the range,
because even a rare branch would keep LLVM from vectorising the loop.
The polynomials' coefficients are computed like those of exponential.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

# 1.5 * 2^52 rounds a double to an integer, whose low bits stay in the significand.
_MAGIC = 6755399441055744.0
_SIGN_SHIFT = 63

# (sin(r) / r - 1) / r^2 in powers of r^2 on |r| <= pi/2: sin to 2^-27.2.
_SIN = (2.6060538402816746e-06, -0.00019809768127743155, 0.008333069272339344, -0.16666659712791443)
# sin(r) / r and cos(r) in powers of r^2 on |r| <= pi/4: 2^-27.9 and 2^-33.0.
_SIN_NARROW = (-0.000195179003640078, 0.008332187309861183, -0.16666655242443085, 1.0)
_COS_NARROW = (2.4432327336398885e-05, -0.0013887309469282627, 0.04166664555668831, -0.5, 1.0)


@dataclass(frozen=True)
class _Unit:
    """The unit of a reduction: pi or pi / 2.

    `inverse` is 1 / size in two doubles. `ranges` has rows of n and, in two doubles, 1 / size modulo 2^(24 - n), as the
    residue nearest to 0, for arguments from 2^n on: f32 of that magnitude are multiples of 2^(n - 23).
    """

    size: float
    inverse: tuple[float, float]
    ranges: tuple[tuple[int, float, float], ...]


_PI = _Unit(
    3.141592653589793,
    (0.3183098861837907, -1.9678676675182486e-17),
    (
        (46, 1.0224824379653776e-07, 3.037013244824923e-24),
        (66, -1.0643455558699644e-13, -2.6608010397597296e-31),
        (87, 5.3802864053693746e-20, -8.450967239003765e-37),
        (107, 3.848352432019786e-26, 2.2103380079700596e-42),
    ),
)
_HALF_PI = _Unit(
    1.5707963267948966,
    (0.6366197723675814, -3.935735335036497e-17),
    (
        (46, -3.3922091508486964e-08, -5.434184107743751e-25),
        (66, 1.4504564269239186e-14, -5.321602079519459e-31),
        (87, -8.144891411629536e-22, 2.5184173833409495e-39),
        (107, -2.643052792873273e-26, -1.3190424939343312e-42),
    ),
)


def _reduce(b: Builder, x: Value, unit: _Unit, shift: float = 0.0) -> tuple[Value, Value]:
    """(x - n * unit, an i64 with the bits of n + shift in its low bits), in f64. n is nearest to x / unit among the
    whole numbers minus `shift`.

    n may be off by a multiple of 2. The sign of a zero x is kept.
    """
    wide = b.widen(x)
    size = b.abs(wide)
    high, low = (b.const(part, wide.type) for part in unit.inverse)
    for exponent, high_here, low_here in unit.ranges:
        is_less = b.less(size, 2.0**exponent)
        high, low = b.select(is_less, high, high_here), b.select(is_less, low, low_here)
    quotient, less = b.mul(wide, high), b.neg(wide)
    # What rounding added to the quotient. Subtracted below, because -0.0 - 0.0 is -0.0.
    added = b.fma(less, low, b.fma(less, high, quotient))
    shifted = b.add(b.add(quotient, shift) if shift else quotient, _MAGIC)
    whole = b.sub(shifted, _MAGIC)
    rest = b.sub(quotient, b.sub(whole, shift) if shift else whole)
    return b.mul(b.sub(rest, added), unit.size), b.bits(shifted)


def _sine(b: Builder, r: Value, parity: Value) -> Value:
    """sin(r) in f32, negated where the low bit of `parity` is set; |r| <= pi/2, in f64."""
    r = b.narrow(b.from_bits(b.xor(b.bits(r), b.shift_left(parity, _SIGN_SHIFT))))
    square = b.mul(r, r)
    y = b.fma(b.mul(r, square), b.poly(square, _SIN), r)
    # Rounding may give a result just above 1. The sign is restored because -0.0 + 0.0 is 0.0.
    return b.copysign(b.at_most(b.abs(y), 1.0), r)


def sin(b: Builder, x: Value) -> Value:
    """(-1)^n sin(x - n pi)."""
    return _sine(b, *_reduce(b, x, _PI))


def cos(b: Builder, x: Value) -> Value:
    """(-1)^n sin(x - (n - 1/2) pi), from cos x = sin(x + pi/2)."""
    return _sine(b, *_reduce(b, x, _PI, shift=0.5))


def tan(b: Builder, x: Value) -> Value:
    """sin r / cos r, or -cos r / sin r after an odd number of quarter turns."""
    rest, turns = _reduce(b, x, _HALF_PI)
    r = b.narrow(rest)
    square = b.mul(r, r)
    sine = b.mul(r, b.poly(square, _SIN_NARROW))
    cosine = b.poly(square, _COS_NARROW)
    odd = b.is_odd(b.low_word(turns))
    return b.div(b.select(odd, cosine, sine), b.select(odd, b.neg(sine), cosine))
