"""Rows of the regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P(a, x), for a, x >= 0.

(a, x) decides the method: Temme's uniform expansion (DLMF 8.12), the series of P (8.11.4), the continued fraction of Q
(8.9.2), or for small numbers the series of Q from 8.7.1, where 1 - P would cancel. Computed in f64 for all types of
operands, and with ATen's special cases.
"""

import functools
import math as pymath
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.gamma_functions import lgamma_of_next, stirling_rest
from cuesta.dialects.cuesta.pointwise_rows.horner import polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value

#: A sum ends at a term below this share of the total: for f64, and for results that are rounded to f32.
_EPSILON, _NARROW_EPSILON = 2.0**-53, 2.0**-30
#: Temme's expansion is used for larger a, if x differs from a by less than this share of a.
_LARGE, _NEAR = 80.0, 0.3
#: The numbers of powers of 1 / a, and of eta in the first coefficient. The omitted terms are below 2^-54 there.
_POWERS, _DEGREE = 9, 24
#: From here on the gamma function is computed by Stirling's series; below, by the series and a product.
_STIRLING = 12


@functools.cache
def _temme() -> tuple[tuple[float, ...], ...]:
    """For each power of 1 / a, the coefficients of the powers of eta, from the constant up (DLMF 8.12.10, 8.12.12).

    With eta^2 / 2 = mu - log(1 + mu) for mu = x / a - 1, and g the coefficients of the scaled gamma function,
    c_0 = 1 / mu - 1 / eta, c_k = c_(k-1)' / eta + (-1)^k g_k / mu.
    """
    count = _DEGREE + 2 * _POWERS
    # mu = m_1 eta + m_2 eta^2 + ..., from mu mu' = eta (1 + mu).
    m = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        known = sum((m[i] * (n + 1 - i) * m[n + 1 - i] for i in range(2, n)), Fraction(0))
        m.append((m[n - 1] - known) / (n + 1))
    # eta / mu = r_0 + r_1 eta + ...
    r = [Fraction(1)]
    for n in range(1, count + 1):
        r.append(-sum((m[i + 1] * r[n - i] for i in range(1, n + 1)), Fraction(0)))
    g = _scaled_gamma(_POWERS)
    row = r[1:]  # from eta^0 up; the poles of c_0 cancel
    rows = [row]
    for k in range(1, _POWERS):
        sign = -1 if k % 2 else 1
        slope = [n * c for n, c in enumerate(row)]  # times eta: of eta^1, eta^2, ...; divided by eta^2
        row = [slope[n + 2] + sign * g[k] * r[n + 1] for n in range(len(slope) - 2)]
        rows.append(row)
    return tuple(tuple(float(c) for c in row[: _DEGREE - 2 * k]) for k, row in enumerate(rows))


def _scaled_gamma(count: int) -> list[Fraction]:
    """g_k of gamma(a) = sqrt(2 pi / a) (a / e)^a (g_0 + g_1 / a + ...): the exponential of Stirling's series."""
    series = [Fraction(0)] * (count + 1)
    for k, bernoulli in enumerate(_bernoulli(count // 2 + 1), 1):
        if 2 * k - 1 <= count:
            series[2 * k - 1] = bernoulli / (2 * k * (2 * k - 1))
    g = [Fraction(1)]
    for n in range(1, count + 1):
        g.append(sum((i * series[i] * g[n - i] for i in range(1, n + 1)), Fraction(0)) / n)
    return g


def _bernoulli(count: int) -> list[Fraction]:
    """B2, B4, ..."""
    numbers = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        numbers.append(-sum((pymath.comb(n + 1, k) * numbers[k] for k in range(n)), Fraction(0)) / (n + 1))
    return numbers[2::2]


def _excess(s: Scalar, a: Value, x: Value) -> Value:
    """mu - log(1 + mu) for mu = x / a - 1, accurate to the last digits where the result is small."""
    one = s.const(a, 1)
    mu = s.div(s.sub(x, a), a)
    near = s.compare("lt", s.abs(mu), s.const(a, _NEAR))
    t = s.select(near, s.div(mu, s.add(mu, s.const(a, 2))), s.const(a, 0))
    square = s.mul(t, t)
    # log(1 + mu) = 2 (t + t^3 / 3 + ...), and mu - 2 t = mu t.
    odd = polynomial(s, square, [2.0 / (2 * k + 3) for k in reversed(range(11))])
    small = s.mul(t, s.sub(mu, s.mul(square, odd)))
    return s.select(near, small, s.sub(mu, math.log(s.select(near, one, s.div(x, a)))))


def _density(s: Scalar, a: Value, x: Value) -> Value:
    """x^a e^-x / gamma(a + 1)."""
    few = s.compare("lt", a, s.const(a, _STIRLING))
    value = s.branch(few, lambda: _small_density(s, a, x), s.const(a, 0))
    return s.branch(_not(s, few), lambda: _large_density(s, a, x), value)


def _large_density(s: Scalar, a: Value, x: Value) -> Value:
    exponent = s.neg(s.add(s.mul(a, _excess(s, a, x)), stirling_rest(s, a)))
    return s.div(math.exp(exponent), math.sqrt(s.mul(s.const(a, 2 * pymath.pi), a)))


def _small_density(s: Scalar, a: Value, x: Value) -> Value:
    """With gamma(z) = sqrt(2 pi) z^(z - 1/2) e^-z e^rest for z = a + 12. Powers of z stay out of the exponent, since
    the exponent's rounding error becomes the result's."""
    z = s.add(a, s.const(a, _STIRLING))
    exponent = s.sub(math.fma(a, math.log(s.div(x, z)), s.sub(z, x)), stirling_rest(s, z))
    product, inverse = s.const(a, 1), s.div(s.const(a, 1), z)
    for k in range(1, _STIRLING):
        product = s.mul(product, s.mul(s.add(a, s.const(a, k)), inverse))
    root = math.sqrt(s.mul(s.const(a, 2 * pymath.pi), z))
    return s.mul(math.exp(exponent), s.div(product, root))


def _not(s: Scalar, condition: Value) -> Value:
    return s.select(condition, s.const(condition, 0), s.const(condition, 1))


def _by_temme(s: Scalar, a: Value, x: Value, upper: bool) -> Value:
    height = _excess(s, a, x)
    above = s.compare("lt", a, x)
    root = math.sqrt(s.mul(a, height))
    eta = math.sqrt(s.add(height, height))
    eta, root = (s.select(above, v, s.neg(v)) for v in (eta, root))
    inverse = s.div(s.const(a, 1), a)
    total = s.const(a, 0)
    for row in reversed(_temme()):
        total = math.fma(total, inverse, polynomial(s, eta, row[::-1]))
    scale = s.div(math.exp(s.neg(s.mul(a, height))), math.sqrt(s.mul(s.const(a, 2 * pymath.pi), a)))
    half = s.mul(s.const(a, 0.5), math.erfc(root if upper else s.neg(root)))
    return (s.add if upper else s.sub)(half, s.mul(scale, total))


def _lower_series(s: Scalar, a: Value, x: Value, epsilon: float) -> Value:
    """P = density (1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ...)"""
    one = s.const(a, 1)

    def goes_on(place: Value, term: Value, total: Value) -> Value:
        return s.compare("gt", term, s.mul(total, s.const(a, epsilon)))

    def add(place: Value, term: Value, total: Value) -> tuple[Value, ...]:
        place = s.add(place, one)
        term = s.mul(term, s.div(x, place))
        return place, term, s.add(total, term)

    *_, total = s.repeat(goes_on, add, a, one, one)
    return s.mul(_density(s, a, x), total)


def _upper_fraction(s: Scalar, a: Value, x: Value, epsilon: float) -> Value:
    """Q = a density / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)). Numerators and denominators are divided by the
    product of the partial denominators so far: each is the previous one plus a multiple of the one before that."""
    one, two, zero = s.const(a, 1), s.const(a, 2), s.const(a, 0)

    def goes_on(i: Value, b: Value, p: Value, q: Value, last_p: Value, last_q: Value) -> Value:
        change = s.abs(s.sub(s.mul(p, last_q), s.mul(last_p, q)))
        return s.compare("gt", change, s.mul(s.const(a, 4 * epsilon), s.abs(s.mul(p, last_q))))

    def step(i: Value, b: Value, p: Value, q: Value, last_p: Value, last_q: Value) -> tuple[Value, ...]:
        after = s.add(b, two)
        factor = s.div(s.mul(i, s.sub(a, i)), s.mul(b, after))
        return s.add(i, one), after, math.fma(factor, last_p, p), math.fma(factor, last_q, q), p, q

    b = s.add(s.sub(x, a), one)
    _, _, p, q, _, _ = s.repeat(goes_on, step, one, b, s.div(one, b), one, zero, one)
    return s.mul(s.mul(_density(s, a, x), a), s.div(p, q))


def _upper_series(s: Scalar, a: Value, x: Value, epsilon: float) -> Value:
    """Q = 1 - x^a / gamma(a + 1) (1 + rest), rest = a (-x / (1! (a + 1)) + x^2 / (2! (a + 2)) - ...)."""
    one, zero = s.const(a, 1), s.const(a, 0)

    def goes_on(n: Value, power: Value, term: Value, total: Value) -> Value:
        return s.compare("gt", s.abs(term), s.mul(s.abs(total), s.const(a, epsilon)))

    def add(n: Value, power: Value, term: Value, total: Value) -> tuple[Value, ...]:
        n = s.add(n, one)
        power = s.neg(s.mul(power, s.div(x, n)))
        term = s.div(power, s.add(a, n))
        return n, power, term, s.add(total, term)

    *_, rest = s.repeat(goes_on, add, zero, one, one, zero)
    log = s.sub(s.mul(a, math.log(x)), lgamma_of_next(s, a))
    less = math.expm1(log)
    return s.neg(s.add(less, s.mul(s.add(less, one), s.mul(a, rest))))


def _regularised(s: Scalar, a: Value, x: Value, upper: bool) -> Value:
    narrow, wide = a.type, ir.F64Type.get()
    epsilon = _EPSILON if narrow == wide else _NARROW_EPSILON
    a, x = s.convert(a, wide), s.convert(x, wide)
    zero, one, infinity = s.const(a, 0), s.const(a, 1), s.const(a, pymath.inf)
    at_zero, at_infinity = (one, zero) if upper else (zero, one)
    # Operands for which the loops might not end get their values below.
    inside = functools.reduce(arith.andi, (s.compare("lt", zero, v) for v in (a, x)))
    inside = functools.reduce(arith.andi, (s.compare("lt", v, infinity) for v in (a, x)), inside)
    b, y = (s.select(inside, v, one) for v in (a, x))

    is_near = s.compare("lt", s.abs(s.sub(y, b)), s.mul(b, s.const(b, _NEAR)))
    is_temmes = arith.andi(s.compare("gt", b, s.const(b, _LARGE)), is_near)
    half = s.const(b, 0.5)
    is_small = s.compare("le", y, s.const(b, 1.1))
    bound = s.select(s.compare("le", y, half), s.div(s.const(b, -0.4), math.log(y)), s.mul(y, s.const(b, 1.1)))
    by_series = arith.andi(is_small, s.compare("le", b, bound))
    by_fraction = arith.andi(s.compare("gt", y, b), s.compare("gt", y, s.const(b, 1.1)))
    gives_upper = arith.ori(by_series, by_fraction)
    branches: list[tuple[Value, Callable[..., Value]]] = [
        (_not(s, gives_upper), _lower_series),
        (by_fraction, _upper_fraction),
        (by_series, _upper_series),
    ]
    value = zero
    for condition, compute in branches:
        here = s.select(is_temmes, s.const(inside, 0), condition)
        value = s.branch(here, functools.partial(compute, s, b, y, epsilon), value)
    is_wanted = gives_upper if upper else _not(s, gives_upper)
    value = s.select(is_wanted, value, s.sub(one, value))
    value = s.branch(is_temmes, functools.partial(_by_temme, s, b, y, upper), value)

    # In ATen's order, by which NaN beside 0 or infinity may give a number: negative, a = 0, x = 0, a and x infinite.
    edge = s.select(s.compare("eq", x, infinity), at_infinity, s.const(a, pymath.nan))
    both = s.select(s.compare("eq", x, infinity), s.const(a, pymath.nan), at_zero)
    edge = s.select(s.compare("eq", a, infinity), both, edge)
    edge = s.select(s.compare("eq", x, zero), at_zero, edge)
    no_shape = s.select(s.compare("gt", x, zero), at_infinity, s.const(a, pymath.nan))
    edge = s.select(s.compare("eq", a, zero), no_shape, edge)
    negative = functools.reduce(arith.ori, (s.compare("lt", v, zero) for v in (a, x)))
    edge = s.select(negative, s.const(a, pymath.nan), edge)
    return s.convert(s.select(inside, value, edge), narrow)


def _row(name: str, upper: bool, reference: Callable[..., torch.Tensor]) -> Pointwise:
    scalar = functools.partial(_regularised, upper=upper)
    return Pointwise(name, 2, scalar, reference, "float", cost=600, repeats=True)


ROWS: tuple[Pointwise, ...] = (
    _row("igamma", False, torch.special.gammainc),
    _row("igammac", True, torch.special.gammaincc),
)
