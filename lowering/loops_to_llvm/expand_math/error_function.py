"""Computes erf by an odd polynomial below 0.9 and 1 - 2^q(a) above (the form of Norbert Juffa's erff), and erfc by
e^(-a^2) times a polynomial of (a - 2) / (a + 2).

The coefficients are computed like those of exponential.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value
from cuesta.lowering.loops_to_llvm.expand_math.exponential import exp, exp2_short

# erf(a) / a - 1 in powers of a^2 on a <= 0.9: 2^-26.1.
_SMALL = (
    -0.0006080144667066634,
    0.005009756423532963,
    -0.026777192950248718,
    0.1128208339214325,
    -0.37612515687942505,
    0.12837915122509003,
)
# log2(erfc(a)) on 0.9 <= a <= 4, weighted for erf: 2^-25.1.
_LOG2_ERFC = (
    -0.0018198193283751607,
    0.0225820429623127,
    -0.13175132870674133,
    -0.9384059906005859,
    -1.6163926124572754,
    -0.002628918504342437,
)
# (1 + 2 a) e^(a^2) erfc(a) in powers of (a - 2) / (a + 2) on a <= 10.1: 2^-25.9.
_SCALED_ERFC = (
    -0.00040474909474141896,
    -0.0012383160647004843,
    0.0013140497030690312,
    0.008640462532639503,
    -0.008057902567088604,
    -0.05420750752091408,
    0.16405458748340607,
    -0.16603095829486847,
    -0.09276391565799713,
    1.2769783735275269,
)


def erf(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    # erf(4) rounds to 1.
    p, scale = exp2_short(b, b.poly(b.at_most(a, 4.0), _LOG2_ERFC))
    large = b.fma(b.neg(p), scale, 1.0)
    small = b.fma(a, b.poly(b.mul(a, a), _SMALL), a)
    return b.copysign(b.select(b.less(a, 0.9), small, large), x)


def erfc(b: Builder, x: Value) -> Value:
    """erfc x, with a tail to the last digits, unlike 1 - erf x: e^(-a^2) is corrected for the rounding error of a^2."""
    # erfc(10.1) rounds to 0.
    a = b.at_most(b.abs(x), 10.1)
    scaled = b.poly(b.div(b.sub(a, 2.0), b.add(a, 2.0)), _SCALED_ERFC)
    square = b.mul(a, a)
    lost = b.fma(a, a, b.neg(square))
    e = exp(b, b.neg(square))
    y = b.div(b.mul(scaled, b.fma(e, b.neg(lost), e)), b.fma(a, 2.0, 1.0))
    return b.select(b.less(x, 0.0), b.sub(2.0, y), y)
