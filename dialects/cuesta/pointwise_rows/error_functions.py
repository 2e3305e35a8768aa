"""Rows of inverse and scaled error functions, in f32. Coefficients are interpolated at Chebyshev's points."""

import math as pymath
from typing import TypeAlias

import torch

from cuesta._mlir import ir, math
from cuesta.dialects.cuesta.pointwise_rows.horner import affine, polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

# erfinv(x) / x in powers of 0.4 w - 1 on w = -log(1 - x²) <= 5: 2^-24.5.
_ERFINV_CENTRE = (
    -3.333980930619873e-05,
    3.553137867129408e-05,
    0.0002840751549229026,
    -0.0008455459610559046,
    -0.0004843499627895653,
    0.008529176004230976,
    -0.01957419328391552,
    -0.02610868588089943,
    0.616600751876831,
    1.5014094114303589,
)
# The same divided by r = sqrt(w), in powers of 1/r mapped from 5 <= w <= 105 to [-1, 1]: 2^-24.6.
_ERFINV_TAIL = (
    -0.0001323546312050894,
    -2.0127879906794988e-05,
    0.0005821898812428117,
    0.0001925461838254705,
    -0.0011334086302667856,
    -0.0007443880895152688,
    0.000980412820354104,
    0.001818471122533083,
    0.0003451750089880079,
    0.0029495840426534414,
    0.0035981424152851105,
    -0.03387141972780228,
    0.9555557370185852,
)
_TAIL_POSITION = (5.71996286093335, -1.5580451571642293)
# (1 + 2 a) e^(a²) erfc(a) in powers of (a - 2) / (a + 2) on a >= 0: 2^-25.0.
_ERFCX = (
    6.336945807561278e-05,
    0.0001608035818208009,
    -0.0003579204494599253,
    -0.0013957069022580981,
    0.0012174105504527688,
    0.008689159527420998,
    -0.008018963038921356,
    -0.05421195924282074,
    0.16404946148395538,
    -0.1660310924053192,
    -0.0927637591958046,
    1.2769783735275269,
)


def _inverse_ratio(s: Scalar, complement: Value) -> Value:
    """erfinv(x) / x, given 1 - x²."""
    w = s.neg(math.log(complement))
    centre = polynomial(s, affine(s, w, 0.4, -1), _ERFINV_CENTRE)
    r = math.sqrt(w)
    tail = s.mul(r, polynomial(s, affine(s, s.div(s.const(r, 1), r), *_TAIL_POSITION), _ERFINV_TAIL))
    return s.select(s.compare("lt", w, s.const(w, 5)), centre, tail)


def _erfinv(s: Scalar, x: Value) -> Value:
    one = s.const(x, 1)
    return s.mul(x, _inverse_ratio(s, s.mul(s.sub(one, x), s.add(one, x))))


def _ndtri(s: Scalar, p: Value) -> Value:
    """sqrt(2) erfinv(2p - 1). 1 - (2p - 1)² is computed as 4p (1 - p), which does not cancel where p is small."""
    x = affine(s, p, 2, -1)
    ratio = _inverse_ratio(s, s.mul(s.mul(s.const(p, 4), p), s.sub(s.const(p, 1), p)))
    return s.mul(s.mul(s.const(p, pymath.sqrt(2)), x), ratio)


def _erfcx(s: Scalar, x: Value) -> Value:
    one, a = s.const(x, 1), s.abs(x)
    t = math.fma(s.const(x, -4), s.div(one, s.add(a, s.const(x, 2))), one)
    right = s.div(polynomial(s, t, _ERFCX), affine(s, a, 2, 1))
    # For a negative x: 2 e^(x²) - erfcx(-x), which overflows beyond the bound. x is split in two: the high half has an
    # exact square, and the rest of x² is small.
    m = s.minimum(a, s.const(x, 9.4))
    scaled = s.mul(m, s.const(x, 4097))
    high = s.sub(scaled, s.sub(scaled, m))
    rest = s.mul(s.sub(m, high), s.add(m, high))
    e = s.mul(math.exp(s.mul(high, high)), math.exp(rest))
    return s.select(s.compare("lt", x, s.const(x, 0)), math.fma(s.const(x, 2), e, s.neg(right)), right)


ROWS: tuple[Pointwise, ...] = (
    Pointwise("erfinv", 1, _erfinv, torch.erfinv, "float", cost=50, doubles=False),
    Pointwise("special_ndtri", 1, _ndtri, torch.special.ndtri, "float", cost=55, doubles=False),
    Pointwise("special_erfcx", 1, _erfcx, torch.special.erfcx, "float", cost=40, doubles=False),
)
