"""Rows of orthogonal polynomials of degree n, where n is an operand: n steps of a recurrence.

p(0) = 1, p(1) = first(x), p(k + 1) = step(k, p(k), p(k - 1)). Chebyshev's polynomials of high degree within [-1, 1] are
computed by their definitions: T(cos t) = cos nt, U = sin((n + 1) t) / sin t, V = cos((n + 1/2) t) / cos(t / 2),
W = sin((n + 1/2) t) / sin(t / 2).
"""

from collections.abc import Callable
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value
#: (k, p(k), p(k - 1)) → p(k + 1)
Step: TypeAlias = Callable[[Value, Value, Value], Value]

#: Kind of Chebyshev polynomial → the degree up to which the recurrence is used everywhere, as in torch.
_MOST = {"t": 6, "u": 8, "v": 8, "w": 8}
_MOST_SHIFTED = {"t": 6, "u": 6, "v": 6, "w": 4}
#: Degrees from which on torch's Hermite polynomials are NaN, by the bits of a float.
_HERMITE = {32: 128, 64: 512}


def _degree(s: Scalar, n: Value) -> Value:
    """n as an i64; for an n that i64 cannot hold -1, for which polynomials are 0."""
    known = s.compare("lt", s.abs(n), s.const(n, 2.0**62))
    return arith.fptosi(ir.IntegerType.get_signless(64), s.select(known, n, s.const(n, -1)))


def _recurrence(s: Scalar, n: Value, first: Value, step: Step) -> Value:
    """p(n) by the recurrence; a NaN ends the loop early."""

    def goes_on(k: Value, p: Value, _: Value) -> Value:
        return arith.andi(s.compare("lt", k, n), s.compare("eq", p, p))

    def advance(k: Value, p: Value, before: Value) -> tuple[Value, Value, Value]:
        return s.add(k, s.const(k, 1)), step(arith.sitofp(p.type, k), p, before), p

    one, zero = s.const(first, 1), s.const(first, 0)
    _, last, _ = s.repeat(goes_on, advance, s.const(n, 1), first, one)
    value = s.select(s.compare("eq", n, s.const(n, 0)), one, last)
    return s.select(s.compare("lt", n, s.const(n, 0)), zero, value)


def _by_angle(s: Scalar, x: Value, n: Value, kind: str) -> Value:
    angle, half = math.acos(x), s.const(x, 0.5)
    match kind:
        case "t":
            return math.cos(s.mul(n, angle))
        case "u":
            return s.div(math.sin(s.mul(s.add(n, s.const(x, 1)), angle)), math.sin(angle))
        case "v":
            return s.div(math.cos(s.mul(s.add(n, half), angle)), math.cos(s.mul(angle, half)))
    return s.div(math.sin(s.mul(s.add(n, half), angle)), math.sin(s.mul(angle, half)))


def _chebyshev(s: Scalar, x: Value, n: Value, kind: str, most: int) -> Value:
    """By the angle for degrees above `most` within [-1, 1], else by the recurrence."""
    count = _degree(s, n)
    one, zero, twice = s.const(x, 1), s.const(x, 0), s.add(x, x)
    even = s.compare("eq", arith.andi(count, s.const(count, 1)), s.const(count, 0))
    number = arith.sitofp(x.type, count)
    ends = {"t": one, "u": s.add(number, one), "v": one, "w": s.add(s.add(number, number), one)}
    # The value at -1 is the value at 1, swapped between V and W, times (-1)^n.
    below = ends[{"v": "w", "w": "v"}.get(kind, kind)]
    at_end = s.select(s.compare("gt", x, zero), ends[kind], s.select(even, below, s.neg(below)))
    size = s.abs(x)
    is_end = s.compare("eq", size, one)
    short = arith.andi(s.compare("gt", count, s.const(count, most)), s.compare("lt", size, one))
    first = {"t": x, "u": twice, "v": s.sub(twice, one), "w": s.add(twice, one)}[kind]
    steps = s.select(arith.ori(is_end, short), s.minimum(count, s.const(count, 0)), count)
    value = _recurrence(s, steps, first, lambda k, p, before: s.sub(s.mul(twice, p), before))
    value = s.branch(short, lambda: _by_angle(s, x, number, kind), value)
    counted = s.select(is_end, at_end, value)
    return s.select(s.compare("lt", count, s.const(count, 0)), zero, counted)


def _shifted(s: Scalar, x: Value, n: Value, kind: str, most: int) -> Value:
    """Chebyshev's polynomial shifted to [0, 1]."""
    return _chebyshev(s, s.sub(s.add(x, x), s.const(x, 1)), n, kind, most)


def _hermite(s: Scalar, x: Value, n: Value, factor: int) -> Value:
    """The polynomial for the weight e^(-x²) if `factor` is 2, for e^(-x²/2) if it is 1."""
    scaled = s.mul(x, s.const(x, factor))

    def step(k: Value, p: Value, before: Value) -> Value:
        return s.sub(s.mul(scaled, p), s.mul(s.mul(s.const(x, factor), k), before))

    count, limit = _degree(s, n), _HERMITE[ir.FloatType(x.type).width]
    large = s.compare("gt", count, s.const(count, limit))
    value = _recurrence(s, s.select(large, s.const(count, 0), count), scaled, step)
    return s.select(large, s.const(x, float("nan")), value)


def _laguerre(s: Scalar, x: Value, n: Value) -> Value:
    one = s.const(x, 1)
    less = s.sub(one, x)

    def step(k: Value, p: Value, before: Value) -> Value:
        return s.div(s.sub(s.mul(s.add(s.add(k, k), less), p), s.mul(k, before)), s.add(k, one))

    count = _degree(s, n)
    at_zero = s.compare("eq", x, s.const(x, 0))
    return _recurrence(s, s.select(at_zero, s.minimum(count, s.const(count, 0)), count), less, step)


def _legendre(s: Scalar, x: Value, n: Value) -> Value:
    one, zero = s.const(x, 1), s.const(x, 0)

    def step(k: Value, p: Value, before: Value) -> Value:
        return s.div(s.sub(s.mul(s.mul(s.add(s.add(k, k), one), x), p), s.mul(k, before)), s.add(k, one))

    count = _degree(s, n)
    is_end = s.compare("eq", s.abs(x), one)
    odd = s.compare("ne", arith.andi(count, s.const(count, 1)), s.const(count, 0))
    value = _recurrence(s, s.select(is_end, s.minimum(count, s.const(count, 0)), count), x, step)
    return s.select(arith.andi(arith.andi(is_end, odd), s.compare("lt", x, zero)), s.neg(value), value)


def _row(name: str, scalar: Callable[..., Value], *parameters: object) -> Pointwise:
    name = f"special_{name}"
    function = getattr(torch.special, name.removeprefix("special_"))
    return Pointwise(name, 2, lambda s, x, n: scalar(s, x, n, *parameters), function, "float", cost=100, repeats=True)


ROWS: tuple[Pointwise, ...] = (
    *(_row(f"chebyshev_polynomial_{kind}", _chebyshev, kind, most) for kind, most in _MOST.items()),
    *(_row(f"shifted_chebyshev_polynomial_{kind}", _shifted, kind, most) for kind, most in _MOST_SHIFTED.items()),
    _row("hermite_polynomial_h", _hermite, 2),
    _row("hermite_polynomial_he", _hermite, 1),
    _row("laguerre_polynomial_l", _laguerre),
    _row("legendre_polynomial_p", _legendre),
)
