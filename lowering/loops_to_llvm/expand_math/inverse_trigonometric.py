"""Computes asin, acos, atan and atan2 of f32 and f64: odd polynomials where the functions are flat, and identities for
the rest.

The coefficients for f32 are computed like those of exponential.py, those for f64 by tools/minimax.py.
"""

from __future__ import annotations

from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, ByWidth, Value

_NAN = float("nan")
# pi and pi/2, each the sum of two numbers.
_PI = ByWidth((3.1415927410125732, -8.742277657347586e-08), (3.141592653589793, 1.2246467991473532e-16))
_HALF_PI = ByWidth((1.5707963705062866, -4.371138828673793e-08), (1.5707963267948966, 6.123233995736766e-17))

# (atan(t) / t - 1) / t^2 in powers of t^2 on t <= 1: atan to 2^-28.5 and 2^-57.6.
_ATAN = ByWidth(
    (
        -0.0017828319687396288,
        0.010868709534406662,
        -0.03109700232744217,
        0.057881392538547516,
        -0.08399306237697601,
        0.10950880497694016,
        -0.14264015853405,
        0.1999852955341339,
        -0.33333298563957214,
    ),
    (
        1.3230026272724636e-05,
        -0.00015221167991932367,
        0.0008315635086335503,
        -0.002885625051302122,
        0.007197924482253366,
        -0.013902645144504334,
        0.021987160996987217,
        -0.02990582453643929,
        0.03664321499796668,
        -0.04219246628919248,
        0.047223496783500046,
        -0.052535272198120354,
        0.05880529919407104,
        -0.06666404444373203,
        0.07692279891774782,
        -0.09090907008065277,
        0.11111111007357775,
        -0.14285714282588605,
        0.19999999999951756,
        -0.3333333333333307,
    ),
)
# (asin(t) / t - 1) / t^2 in powers of t^2 on t <= 1/2: asin to 2^-27.6 and 2^-55.9.
_ASIN = ByWidth(
    (
        0.042158305644989014,
        0.024184778332710266,
        0.04546914994716644,
        0.074953094124794,
        0.16666752099990845,
    ),
    (
        0.031914448440102224,
        -0.01622737761669923,
        0.01953021907495034,
        0.0065272764802387665,
        0.012169369274353125,
        0.01388521214442396,
        0.017359707043164023,
        0.022371757905628106,
        0.030381959142691154,
        0.04464285682819861,
        0.07500000000337158,
        0.16666666666665408,
    ),
)


def _odd(b: Builder, t: Value, square: Value, coefficients: ByWidth[tuple[float, ...]]) -> Value:
    """t + t^3 P(t^2)."""
    return b.fma(b.mul(t, square), b.poly(square, coefficients.of(t)), t)


def _less(b: Builder, unit: ByWidth[tuple[float, float]], y: Value) -> Value:
    """unit - y."""
    high, low = unit.of(y)
    return b.sub(high, b.sub(y, low))


def _halved(b: Builder, a: Value) -> tuple[Value, Value]:
    """(t, t^2) with t = a below 1/2, else t = sqrt((1 - a) / 2), for which asin a = pi/2 - 2 asin t."""
    near = b.less(a, 0.5)
    square = b.select(near, b.mul(a, a), b.mul(b.sub(1.0, a), 0.5))
    return b.select(near, a, b.sqrt(square)), square


def asin(b: Builder, x: Value) -> Value:
    a = b.abs(x)
    y = _odd(b, *_halved(b, a), _ASIN)
    y = b.select(b.less(a, 0.5), y, _less(b, _HALF_PI, b.mul(y, 2.0)))
    return b.copysign(y, x)


def acos(b: Builder, x: Value) -> Value:
    """pi/2 - asin x for |x| < 1/2, 2 asin t for larger x, pi - 2 asin t for smaller x."""
    a = b.abs(x)
    y = _odd(b, *_halved(b, a), _ASIN)
    twice = b.mul(y, 2.0)
    outside = b.select(b.less(x, 0.0), _less(b, _PI, twice), twice)
    return b.select(b.less(a, 0.5), _less(b, _HALF_PI, b.copysign(y, x)), outside)


def _atan_of_ratio(b: Builder, y: Value, x: Value) -> Value:
    """atan(y / x) of non-negative numbers; if y > x, computed as pi/2 - atan(x / y)."""
    steep = b.less(x, y)
    low, high = b.select(steep, x, y), b.select(steep, y, x)
    t = b.div(low, high)
    angle = _odd(b, t, b.mul(t, t), _ATAN)
    return b.select(steep, _less(b, _HALF_PI, angle), angle)


def atan(b: Builder, x: Value) -> Value:
    return b.copysign(_atan_of_ratio(b, b.abs(x), b.const(1.0, x.type)), x)


def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of (x, y) in the quadrant of their signs. Signs of zeros count; two infinities give odd multiples
    of 45 degrees."""
    rise, run = b.abs(y), b.abs(x)
    same = b.equal(rise, run)
    zero = b.both(same, b.equal(rise, 0.0))
    # Equal numbers have the ratio 1, also infinities; two zeros have the angle 0.
    angle = _atan_of_ratio(b, b.select(same, 1.0, rise), b.select(same, 1.0, run))
    angle = b.select(zero, 0.0, angle)
    left = b.less(b.copysign(1.0, x), 0.0)
    angle = b.copysign(b.select(left, _less(b, _PI, angle), angle), y)
    return b.select(b.unordered(x, y), _NAN, angle)
