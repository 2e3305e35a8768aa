"""Row of Hurwitz' zeta function, the sum of (q + k)^-x for k >= 0: the first terms one by one, the rest by the formula
of Euler and Maclaurin. Computed in f64 for all types of operands, as ATen's on a CPU, and with ATen's special cases."""

import math as pymath
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

#: At least this many terms after the first are added, and all terms whose q + k is at most this number.
_TERMS = 9
# Bernoulli's numbers B2, B4, ...
_BERNOULLI = (
    *(1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330),
    *(854513 / 138, -236364091 / 2730),
)
_EPSILON = 2.0**-53


def _zeta(s: Scalar, x: Value, q: Value) -> Value:
    narrow, wide = x.type, ir.F64Type.get()
    x, q = s.convert(x, wide), s.convert(q, wide)
    zero, one = s.const(x, 0), s.const(x, 1)
    negative = s.compare("le", q, zero)
    pole = arith.andi(negative, s.compare("eq", q, math.floor(q)))
    complex_term = arith.andi(negative, s.compare("ne", x, math.floor(x)))
    total = _sum(s, x, s.select(pole, one, q))  # for a pole the loop might not end
    infinity, nan = s.const(x, pymath.inf), s.const(x, pymath.nan)
    total = s.select(pole, infinity, s.select(complex_term, nan, total))
    total = s.select(s.compare("lt", x, one), nan, s.select(s.compare("eq", x, one), infinity, total))
    return s.convert(total, narrow)


def _sum(s: Scalar, x: Value, q: Value) -> Value:
    one, minus = s.const(x, 1), s.neg(x)

    def is_nothing(term: Value, total: Value) -> Value:
        return s.compare("lt", s.abs(term), s.mul(total, s.const(x, _EPSILON)))

    def goes_on(number: Value, place: Value, term: Value, total: Value) -> Value:
        few = arith.ori(s.compare("lt", number, s.const(x, _TERMS)), s.compare("le", place, s.const(x, _TERMS)))
        return s.select(is_nothing(term, total), s.const(few, 0), few)

    def add(number: Value, place: Value, term: Value, total: Value) -> tuple[Value, ...]:
        place = s.add(place, one)
        term = math.powf(place, minus)
        return s.add(number, one), place, term, s.add(total, term)

    first = (s.const(x, 0), q, s.const(x, pymath.inf), math.powf(q, minus))
    _, place, term, total = s.repeat(goes_on, add, *first)
    done = is_nothing(term, total)
    rest = s.sub(s.div(s.mul(term, place), s.sub(x, one)), s.mul(term, s.const(x, 0.5)))
    total = s.select(done, total, s.add(total, rest))
    # The terms with derivatives at `place`: x (x + 1) ... (x + 2k - 2) place^-(x + 2k - 1) B2k / (2k)!
    rising = x
    for k, bernoulli in enumerate(_BERNOULLI, 1):
        term = s.div(term, place)
        part = s.mul(s.mul(rising, term), s.const(x, bernoulli / pymath.factorial(2 * k)))
        total = s.select(done, total, s.add(total, part))
        done = arith.ori(done, is_nothing(part, s.abs(total)))
        for step in (2 * k - 1, 2 * k):
            rising = s.mul(rising, s.add(x, s.const(x, step)))
        term = s.div(term, place)
    return total


ROWS: tuple[Pointwise, ...] = (
    Pointwise("special_zeta", 2, _zeta, torch.special.zeta, "float", cost=400, repeats=True),
)
