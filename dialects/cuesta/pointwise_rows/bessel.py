"""Rows of Bessel functions of the first and second kind, in f32. Coefficients are interpolated at Chebyshev's points.

For x > 5, with χ = x - π/4 - order · π/2: J = sqrt(2/πx) (P cos χ - Q sin χ), Y = sqrt(2/πx) (P sin χ + Q cos χ).
"""

import math as pymath
from collections.abc import Callable
from typing import TypeAlias

import torch

from cuesta._mlir import ir, math
from cuesta.dialects.cuesta.pointwise_rows.horner import affine, polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

# J0(x) in powers of 2 x² / 25 - 1 on x <= 5. Error, absolute as in all tables that follow: 2^-24.0.
_J0_SMALL = (
    3.941169325116789e-06,
    -7.718845881754532e-05,
    0.0011343524092808366,
    -0.012034947983920574,
    0.0853918269276619,
    -0.3601808249950409,
    0.7094160318374634,
    -0.21650540828704834,
    -0.3847444951534271,
)
# J1(x) / x, the same way: 2^-26.0.
_J1_SMALL = (
    -5.046724254498258e-06,
    8.650781092001125e-05,
    -0.001088975346647203,
    0.009627887979149818,
    -0.054650772362947464,
    0.17288681864738464,
    -0.22701312601566315,
    0.03464086353778839,
)
# Y0(x) - 2/π log(x) J0(x), the same way: 2^-27.1.
_Y0_SMALL = (
    -7.009831733739702e-06,
    0.00013060290075372905,
    -0.0018027883488684893,
    0.01763485185801983,
    -0.11151682585477829,
    0.38851654529571533,
    -0.47057637572288513,
    -0.43265584111213684,
    0.4837248623371124,
)
# (Y1(x) - 2/π (log(x) J1(x) - 1/x)) / x, the same way: 2^-26.3.
_Y1_SMALL = (
    8.767538020038046e-06,
    -0.00014224241022020578,
    0.0016687773168087006,
    -0.01343291811645031,
    0.06634695827960968,
    -0.163120299577713,
    0.0910865068435669,
    0.13974939286708832,
)
# The in-phase part of J0, and its out-of-phase part divided by 5 / x, in powers of 50 / x² - 1 on x >= 5: 2^-26.1.
_P0 = (
    3.159060497637256e-07,
    -2.5277468012063764e-06,
    3.491020470391959e-05,
    -0.0013274757657200098,
    0.9986347556114197,
)
_Q0 = (
    -2.0389263966080762e-07,
    1.2989675042263116e-06,
    -1.2671303920797072e-05,
    0.00026282964972779155,
    -0.02472299337387085,
)
_P1 = (
    -3.6717480611514475e-07,
    3.0556727779185167e-06,
    -4.577486470225267e-05,
    0.002241443609818816,
    1.0022906064987183,
)
_Q1 = (
    2.3341064547821588e-07,
    -1.5315222299250308e-06,
    1.5789386452524923e-05,
    -0.00037295513902790844,
    0.07460948824882507,
)


def _phases(s: Scalar, x: Value, order: int) -> tuple[Value, Value]:
    """sqrt(2) cos χ and sqrt(2) sin χ."""
    sine, cosine = math.sin(x), math.cos(x)
    plus, minus = s.add(sine, cosine), s.sub(sine, cosine)
    return (minus, s.neg(plus)) if order else (plus, minus)


def _far(s: Scalar, x: Value, order: int, second: bool) -> Value:
    cosine, sine = _phases(s, x, order)
    inverse = s.div(s.const(x, 5), x)
    position = affine(s, s.mul(inverse, inverse), 2, -1)
    p = polynomial(s, position, (_P0, _P1)[order])
    q = s.mul(inverse, polynomial(s, position, (_Q0, _Q1)[order]))
    wave = s.add(s.mul(p, sine), s.mul(q, cosine)) if second else s.sub(s.mul(p, cosine), s.mul(q, sine))
    return s.div(wave, math.sqrt(s.mul(s.const(x, pymath.pi), x)))


def _position(s: Scalar, x: Value) -> Value:
    return affine(s, s.mul(x, x), 2 / 25, -1)


def _first(s: Scalar, x: Value, order: int) -> Value:
    a = s.abs(x)
    near = polynomial(s, _position(s, a), (_J0_SMALL, _J1_SMALL)[order])
    near = s.mul(near, a) if order else near
    value = s.select(s.compare("le", a, s.const(x, 5)), near, _far(s, a, order, second=False))
    value = s.select(s.compare("eq", a, s.const(x, pymath.inf)), s.const(x, 0), value)
    return s.select(s.compare("lt", x, s.const(x, 0)), s.neg(value), value) if order else value


def _second(s: Scalar, x: Value, order: int) -> Value:
    position = _position(s, x)
    first = polynomial(s, position, (_J0_SMALL, _J1_SMALL)[order])
    near = polynomial(s, position, (_Y0_SMALL, _Y1_SMALL)[order])
    log = s.mul(s.const(x, 2 / pymath.pi), math.log(x))
    near = math.fma(log, first, near)
    if order:
        near = math.fma(near, x, s.div(s.const(x, -2 / pymath.pi), x))
    value = s.select(s.compare("le", x, s.const(x, 5)), near, _far(s, x, order, second=True))
    return s.select(s.compare("eq", x, s.const(x, 0)), s.const(x, -pymath.inf), value)


def _spherical(s: Scalar, x: Value) -> Value:
    """sin(x) / x; near 0 its series."""
    series = [(-1) ** k / pymath.factorial(2 * k + 1) for k in range(5)]
    near = polynomial(s, s.mul(x, x), series[::-1])
    a = s.abs(x)
    value = s.select(s.compare("lt", a, s.const(x, 0.5)), near, s.div(math.sin(x), x))
    return s.select(s.compare("eq", a, s.const(x, pymath.inf)), s.const(x, 0), value)


def _row(name: str, compute: Callable[..., Value], order: int, function: Callable[..., torch.Tensor]) -> Pointwise:
    return Pointwise(name, 1, lambda s, x: compute(s, x, order), function, "float", cost=70, doubles=False)


_special = torch.special
ROWS: tuple[Pointwise, ...] = (
    _row("special_bessel_j0", _first, 0, _special.bessel_j0),
    _row("special_bessel_j1", _first, 1, _special.bessel_j1),
    _row("special_bessel_y0", _second, 0, _special.bessel_y0),
    _row("special_bessel_y1", _second, 1, _special.bessel_y1),
    Pointwise(
        "special_spherical_bessel_j0", 1, _spherical, _special.spherical_bessel_j0, "float", cost=30, doubles=False
    ),
)
