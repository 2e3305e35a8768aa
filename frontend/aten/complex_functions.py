"""Imports exponentials, roots and trigonometric functions of complex numbers.

For parts that are infinite, NaN or 0, the results follow annex G of the C standard, as eager's do. A part is `wild` if
it is infinite or NaN.
"""

from __future__ import annotations

import math

from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import spelling_of
from cuesta.frontend.aten.complex_numbers import Pair, on_complex
from cuesta.frontend.aten.expressions import Expression, where
from cuesta.frontend.call import Call
from cuesta.frontend.rules import imports

#: Type of a part → a power of two that makes the type's smallest number normal, and 1 / the power's square root.
_RAISE = {"f32": (2.0**24, 2.0**-12), "f64": (2.0**54, 2.0**-27)}
#: Type of a part → the number beyond which tanh differs from 1 by less than half an ulp.
_FLAT = {"f32": 10.0, "f64": 20.0}


def _times(x: Expression, y: Expression) -> Expression:
    """x * y, but zero where x is zero, whatever y is: also where y is infinite."""
    return where(x.equals(0), x * y.number(1).of("copysign", y), x * y)


@imports("polar", complex_numbers=True)
def polar(b: Call, length: Value, angle: Value) -> Value:
    r, phi = Expression(b, length), Expression(b, angle)
    return Pair(r * phi.of("cos"), r * phi.of("sin")).value


@on_complex("exp")
def exp(z: Pair) -> Pair:
    length, wild = z.re.of("exp"), _is_wild(z.im)
    none, every = wild & z.re.equals(-math.inf), wild & z.re.equals(math.inf)
    re = where(none | every, length, _times(z.im.of("cos"), length))
    return Pair(re, where(none, length.of("copysign", z.im), _times(z.im.of("sin"), length)))


def _is_wild(x: Expression) -> Expression:
    return (x - x).of("ne", 0)


@on_complex("sqrt")
def sqrt(z: Pair) -> Pair:
    """The root whose real part is not negative. Its larger part is the root of (|re| + |z|) / 2, on numbers scaled so
    that the sum neither overflows nor loses bits. The other part is im / (2 · the larger part)."""
    raised, back = _RAISE[spelling_of(z.re.value)]
    large = (abs(z.re) > 1) | (abs(z.im) > 1)
    scale, unscale = where(large, z.re.number(1 / 16), raised), where(large, z.re.number(4), back)
    re, im = z.re * scale, z.im * scale
    root = ((abs(re) + re.of("hypot", im)) * 0.5).of("sqrt")
    other = where(root.equals(0), im, im / (root + root))
    root, other = root * unscale, other * unscale
    right = z.re >= 0
    infinite = z.im.of("isinf")
    real = where(infinite, abs(z.im), where(right, root, abs(other)))
    return Pair(real, where(infinite, z.im, where(right, other, root.of("copysign", z.im))))


def _one_and_decay(z: Pair) -> Pair:
    decay = exp(-z)
    return Pair(1 + decay.re, decay.im)


def _swapped(z: Pair) -> Pair:
    """i times the conjugate; turns sinh into sin, tanh into tan, and cosh into cos."""
    return Pair(z.im, z.re)


@on_complex("sinh")
def sinh(z: Pair) -> Pair:
    re = _times(z.re.of("sinh"), z.im.of("cos"))
    lost = _is_wild(z.im) & z.re.of("isinf")
    return Pair(where(lost, abs(z.re), re), _times(z.im.of("sin"), z.re.of("cosh")))


@on_complex("cosh")
def cosh(z: Pair) -> Pair:
    wild = _is_wild(z.im)
    re = where(wild & z.re.of("isinf"), abs(z.re), z.re.of("cosh") * z.im.of("cos"))
    im = _times(z.im.of("sin"), z.re.of("sinh"))
    return Pair(re, where(wild & z.re.equals(0), z.re.number(0), im))


@on_complex("tanh")
def tanh(z: Pair) -> Pair:
    """With s = sinh(re), t = tan(im), u = 1 + t²: (u s cosh(re), t) / (1 + u s²). For large |re|: ±1 and a small
    imaginary part (W. Kahan, Branch Cuts for Complex Elementary Functions, 1987)."""
    far = abs(z.re) > _FLAT[spelling_of(z.re.value)]
    near = where(far, z.re.number(0), z.re)
    s, t = near.of("sinh"), z.im.of("tan")
    u = 1 + t * t
    divisor = 1 + u * s * s
    rest = 4 * z.im.of("sin") * z.im.of("cos") * (abs(z.re) * -2).of("exp")
    rest = where(_is_wild(z.im) & z.re.of("isinf"), z.re.number(0).of("copysign", z.im), rest)
    re = where(far, z.re.number(1).of("copysign", z.re), u * s * near.of("cosh") / divisor)
    im = where(z.im.equals(0), z.im, where(far, rest, t / divisor))
    return Pair(where(z.re.equals(0), z.re, re), im)


on_complex("rsqrt")(lambda z: sqrt(z).reciprocal())
on_complex("sigmoid")(lambda z: _one_and_decay(z).reciprocal())
on_complex("silu")(lambda z: z / _one_and_decay(z))
on_complex("sin")(lambda z: _swapped(sinh(_swapped(z))))
on_complex("cos")(lambda z: cosh(_swapped(z)).conjugate())
on_complex("tan")(lambda z: _swapped(tanh(_swapped(z))))


# -- gradients --------------------------------------------------------------------------------
@imports("tanh_backward", "sigmoid_backward", complex_numbers=True)
def backward(b: Call, grad: Value, output: Value) -> Value:
    """The gradient times the conjugate of 1 - y² for tanh, of y (1 - y) for sigmoid."""
    spelling = spelling_of(output)
    y = Pair.of(b, output, spelling)
    rest = y.one() - (y * y if "tanh" in b.name else y)
    slope = rest if "tanh" in b.name else y * rest
    return (Pair.of(b, grad, spelling) * slope.conjugate()).value
