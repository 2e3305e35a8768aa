"""Rows of the logarithm of the gamma function and its derivatives.

Large arguments use Stirling's series. The recurrence moves smaller arguments to its range, the reflection negative
ones. Steps and terms are as many as f32 or f64 needs.
"""

import math as pymath
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.horner import polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

# Bernoulli's numbers B2, B4, ...
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)
# lgamma(2 + t) / t in powers of 2t on |t| <= 1/2, interpolated at Chebyshev's points: 2^-24.3.
_LGAMMA = (
    -9.916478802551865e-07,
    4.455835096450755e-06,
    -1.8528713553678244e-05,
    8.99633378139697e-05,
    -0.00046163611114025116,
    0.0025727038737386465,
    -0.01683807000517845,
    0.16123351454734802,
    0.42278432846069336,
)
# lgamma(2 + t) / t in powers of t on |t| <= 1/2 (`python -m cuesta.tools.minimax`): 2^-56.2.
_WIDE_LGAMMA = (
    2.1678265397622154e-07,
    3.24480214555438e-08,
    2.8279866730706623e-08,
    -6.180736596948106e-07,
    1.0413736581875882e-06,
    -1.9567580396116277e-06,
    4.352738854399083e-06,
    -9.46079292669068e-06,
    2.0510561482089727e-05,
    -4.4923052539433806e-05,
    9.945721062810486e-05,
    -0.00022315503702582427,
    0.0005096695404236707,
    -0.0011927538980375618,
    0.0028905103303151197,
    -0.007385551029009522,
    0.02058080842778953,
    -0.06735230105319492,
    0.3224670334241132,
    0.42278433509846713,
)
#: (log 2π - 1) / 2
_STIRLING = 0.41893853320467274


@dataclass(frozen=True)
class _Precision:
    """For each function, the argument from which its series is used, and the number of terms."""

    lgamma_limit: int
    lgamma_terms: int
    digamma_limit: int
    digamma_terms: int
    polygamma_limit: int
    polygamma_terms: int


_NARROW = _Precision(4, 4, 6, 4, 6, 5)
_WIDE = _Precision(8, 9, 10, 8, 10, 8)


def _precision(x: Value) -> _Precision:
    return _WIDE if _is_wide(x) else _NARROW


def _is_wide(x: Value) -> bool:
    return bool(x.type == ir.F64Type.get())


def _lgamma_near_two(s: Scalar, t: Value) -> Value:
    """lgamma(2 + t) for |t| <= 1/2."""
    y = polynomial(s, t, _WIDE_LGAMMA) if _is_wide(t) else polynomial(s, s.add(t, t), _LGAMMA)
    return s.mul(t, y)


def lgamma_of_next(s: Scalar, a: Value) -> Value:
    """lgamma(1 + a) for 0 <= a <= 3/2, accurate to the last digits where the result is small."""
    below = s.compare("lt", a, s.const(a, 0.5))
    y = _lgamma_near_two(s, s.select(below, a, s.sub(a, s.const(a, 1))))
    return s.select(below, s.sub(y, math.log1p(a)), y)


def stirling_rest(s: Scalar, z: Value, terms: int = 8) -> Value:
    """The part 1 / 12z - 1 / 360z³ + ... of Stirling's series for lgamma z; 8 terms are exact to f64 from 12 on."""
    inverse = s.div(s.const(z, 1), z)
    series = [b / ((2 * k) * (2 * k - 1)) for k, b in enumerate(_BERNOULLI[:terms], 1)]
    return s.mul(inverse, polynomial(s, s.mul(inverse, inverse), series[::-1]))


def _from_whole(x: Value) -> Value:
    """How far x lies from the nearest whole number, with its sign."""
    return arith.subf(x, math.roundeven(x))


def _lgamma(s: Scalar, x: Value) -> Value:
    precision = _precision(x)
    limit = precision.lgamma_limit
    one, a = s.const(x, 1), s.abs(x)
    # Small: lgamma(2 + t) and the logarithm of the recurrence's product.
    tiny, below = s.compare("lt", a, s.const(x, 0.5)), s.compare("lt", a, s.const(x, 1.5))
    y, product = a, one
    for _ in range(limit - 2):
        less = s.sub(y, one)
        high = s.compare("ge", y, s.const(x, 2.5))
        product = s.select(high, s.mul(product, less), product)
        y = s.select(high, less, y)
    t = s.select(tiny, a, s.select(below, s.sub(a, one), s.sub(y, s.const(x, 2))))
    factor = s.select(tiny, s.mul(a, s.add(a, one)), s.select(below, a, product))
    # Large: (a - 1/2) (log a - 1) and the rest of Stirling's series.
    large = s.compare("ge", a, s.const(x, limit))
    log = math.log(s.select(large, a, factor))
    small = s.add(_lgamma_near_two(s, t), s.select(below, s.neg(log), log))
    rest = s.add(stirling_rest(s, a, precision.lgamma_terms), s.const(x, _STIRLING))
    big = math.fma(s.sub(a, s.const(x, 0.5)), s.sub(log, one), rest)
    value = s.select(large, big, small)
    # Negative: Γ(a) Γ(-a) = -π / (a sin πa). Near 0 both sides are 1/a.
    sine = s.abs(math.sin(s.mul(s.const(x, pymath.pi), _from_whole(a))))
    mirrored = s.sub(math.log(s.div(s.const(x, pymath.pi), s.mul(a, sine))), value)
    negative = s.compare("lt", x, s.const(x, -1e-10))
    infinity = s.const(x, pymath.inf)
    mirrored = s.select(s.compare("eq", sine, s.const(x, 0)), infinity, mirrored)
    return s.select(s.compare("eq", a, infinity), infinity, s.select(negative, mirrored, value))


def _digamma(s: Scalar, x: Value) -> Value:
    limit = _precision(x).digamma_limit
    one, zero = s.const(x, 1), s.const(x, 0)
    negative = s.compare("lt", x, zero)
    z = s.select(negative, s.sub(one, x), x)
    # The sum of 1/(z + k) as one quotient.
    above, under = one, z
    for k in range(1, limit):
        next_one = s.add(z, s.const(x, k))
        above, under = math.fma(above, next_one, under), s.mul(under, next_one)
    large = s.compare("ge", z, s.const(x, limit))
    w = s.select(large, z, s.add(z, s.const(x, limit)))
    inverse = s.div(one, w)
    square = s.mul(inverse, inverse)
    series = [b / (2 * k) for k, b in enumerate(_BERNOULLI[: _precision(x).digamma_terms], 1)]
    value = s.sub(math.log(w), math.fma(square, polynomial(s, square, series[::-1]), s.mul(inverse, s.const(x, 0.5))))
    value = s.sub(value, s.select(large, zero, s.div(above, under)))
    r = _from_whole(x)
    pole = s.select(s.compare("eq", r, zero), s.const(x, pymath.nan), _cotangent(s, r))
    value = s.select(negative, math.fma(s.const(x, -pymath.pi), pole, value), value)
    return s.select(s.compare("eq", x, zero), math.copysign(s.const(x, pymath.inf), s.neg(x)), value)


def _cotangent(s: Scalar, r: Value) -> Value:
    """cot πr for |r| <= 1/2, accurate to the last digits also where the result is small."""
    a = s.abs(r)
    near_zero = s.compare("gt", a, s.const(r, 0.25))
    tangent = math.tan(s.mul(s.const(r, pymath.pi), s.select(near_zero, s.sub(s.const(r, 0.5), a), a)))
    return math.copysign(s.select(near_zero, tangent, s.div(s.const(r, 1), tangent)), r)


def _cotangent_derivative(n: int) -> list[int]:
    """The n-th derivative of cot as a polynomial of cot, from the highest power down."""
    rising = [0, 1]
    for _ in range(n):
        slope = [-k * c for k, c in enumerate(rising)][1:]
        rising = [low + high for low, high in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return rising[::-1]


def _polygamma(s: Scalar, x: Value, n: float) -> Value:
    """The n-th derivative of digamma, n from 1 on."""
    order = int(n)
    limit = _precision(x).polygamma_limit + order
    one, zero = s.const(x, 1), s.const(x, 0)
    negative = s.compare("lt", x, zero)
    z = s.select(negative, s.sub(one, x), x)
    total = zero
    for k in range(limit):
        total = s.add(total, s.div(one, _power(s, s.add(z, s.const(x, k)), order + 1)))
    large = s.compare("ge", z, s.const(x, limit))
    w = s.select(large, z, s.add(z, s.const(x, limit)))
    inverse = s.div(one, w)
    factorial = pymath.factorial(order)
    bernoulli = _BERNOULLI[: _precision(x).polygamma_terms]
    series = [b * pymath.factorial(2 * k + order - 1) / pymath.factorial(2 * k) for k, b in enumerate(bernoulli, 1)]
    falling = [*series[::-1], factorial / 2, factorial / order]
    # A polynomial in 1/w², except for the first two terms.
    tail = polynomial(s, s.mul(inverse, inverse), falling[:-2])
    tail = math.fma(math.fma(tail, inverse, s.const(x, falling[-2])), inverse, s.const(x, falling[-1]))
    value = s.mul(tail, _power(s, inverse, order))
    value = math.fma(s.const(x, factorial), s.select(large, zero, total), value)
    sign = -1 if order % 2 == 0 else 1
    turn = s.mul(s.const(x, pymath.pi ** (order + 1)), _at_cotangent(s, x, order))
    return s.select(negative, s.neg(s.add(turn, value)), s.mul(s.const(x, sign), value))


def _at_cotangent(s: Scalar, x: Value, order: int) -> Value:
    return polynomial(s, _cotangent(s, _from_whole(x)), [float(c) for c in _cotangent_derivative(order)])


def _power(s: Scalar, x: Value, exponent: int) -> Value:
    value = x
    for _ in range(exponent - 1):
        value = s.mul(value, x)
    return value


def _polygamma_reference(x: torch.Tensor, n: float) -> torch.Tensor:
    return torch.polygamma(int(n), x)


ROWS: tuple[Pointwise, ...] = (
    Pointwise("lgamma", 1, _lgamma, torch.lgamma, "float", cost=70),
    Pointwise("digamma", 1, _digamma, torch.digamma, "float", cost=60),
    Pointwise("polygamma", 1, _polygamma, _polygamma_reference, "float", ("n",), cost=90),
)
