"""Exponentials, logarithms, roots and trigonometric functions of complex numbers.

Where a part is infinite or 0 the results are those that C's library gives for one number, as far as a choice of a few
comparisons goes; ATen's code for vectors gives NaN for some of them.
"""

from __future__ import annotations

import math

import torch

from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import spelling_of
from cuesta.frontend.aten.complex_numbers import Pair, Value, on_complex
from cuesta.frontend.aten.expressions import Expression, where
from cuesta.frontend.rules import imports

#: Type of a part → a power of two that makes the least of its numbers a normal one, and its square root.
_RAISE = {"f32": (2.0**24, 2.0**-12), "f64": (2.0**54, 2.0**-27)}
#: Type of a part → where tanh is 1 but for less than half an ulp.
_FLAT = {"f32": 10.0, "f64": 20.0}


def _times(x: Expression, y: Expression) -> Expression:
    """x * y, a zero where x is one whatever y is: of 0 and an infinite length too."""
    return where(x.equals(0), x * y.number(1).of("copysign", y), x * y)


def _turned(length: Expression, angle: Expression) -> Pair:
    """The number of that length in that direction."""
    return Pair(_times(angle.of("cos"), length), _times(angle.of("sin"), length))


@imports("polar", complex_numbers=True)
def polar(b: GraphBuilder, node: torch.fx.Node, length: Value, angle: Value) -> Value:
    return _turned(Expression(b, length), Expression(b, angle)).value


@on_complex("exp")
def exp(z: Pair) -> Pair:
    return _turned(z.re.of("exp"), z.im)


def _log(z: Pair) -> Pair:
    return Pair(abs(z).of("log"), z.im.of("atan2", z.re))


@on_complex("log")
def log(z: Pair) -> Pair:
    return _log(z)


@on_complex("log2")
def log2(z: Pair) -> Pair:
    return Pair(abs(z).of("log2"), _log(z).im * (1 / math.log(2)))


@on_complex("log10")
def log10(z: Pair) -> Pair:
    return Pair(abs(z).of("log10"), _log(z).im * (1 / math.log(10)))


@on_complex("sqrt")
def sqrt(z: Pair) -> Pair:
    return _sqrt(z)


def _sqrt(z: Pair) -> Pair:
    """The root with a real part that is not negative. Its larger part is the root of (|re| + |z|) / 2, of numbers
    scaled so that the sum neither overflows nor loses bits; the other follows from the product of both."""
    raised, back = _RAISE[spelling_of(z.re.value)]
    large = abs(z.re).of("maximum", abs(z.im)) > 1
    scale, unscale = where(large, z.re.number(1 / 16), raised), where(large, z.re.number(4), back)
    re, im = z.re * scale, z.im * scale
    root = ((abs(re) + re.of("hypot", im)) * 0.5).of("sqrt")
    other = where(root.equals(0), im, im / (root + root))
    root, other = root * unscale, other * unscale
    right = z.re >= 0
    infinite = z.im.of("isinf")
    real = where(infinite, abs(z.im), where(right, root, abs(other)))
    return Pair(real, where(infinite, z.im, where(right, other, root.of("copysign", z.im))))


@on_complex("rsqrt")
def rsqrt(z: Pair) -> Pair:
    return _sqrt(z).reciprocal()


@on_complex("sigmoid")
def sigmoid(z: Pair) -> Pair:
    decay = _turned((-z.re).of("exp"), -z.im)
    return Pair(1 + decay.re, decay.im).reciprocal()


@on_complex("sinh")
def sinh(z: Pair) -> Pair:
    return _sinh(z)


@on_complex("cosh")
def cosh(z: Pair) -> Pair:
    return _cosh(z)


@on_complex("sin")
def sin(z: Pair) -> Pair:
    """-i sinh(iz)"""
    found = _sinh(_by_i(z))
    return Pair(found.im, -found.re)


@on_complex("cos")
def cos(z: Pair) -> Pair:
    """cosh(iz)"""
    return _cosh(_by_i(z))


@on_complex("tanh")
def tanh(z: Pair) -> Pair:
    return _tanh(z)


@on_complex("tan")
def tan(z: Pair) -> Pair:
    """-i tanh(iz)"""
    found = _tanh(_by_i(z))
    return Pair(found.im, -found.re)


def _by_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _sinh(z: Pair) -> Pair:
    return Pair(_times(z.re.of("sinh"), z.im.of("cos")), _times(z.im.of("sin"), z.re.of("cosh")))


def _cosh(z: Pair) -> Pair:
    return Pair(z.re.of("cosh") * z.im.of("cos"), _times(z.im.of("sin"), z.re.of("sinh")))


def _tanh(z: Pair) -> Pair:
    """With s = sinh(re), t = tan(im), u = 1 + t²: (u s cosh(re), t) / (1 + u s²); far out 1 and what is left of the
    imaginary part (W. Kahan, Branch Cuts for Complex Elementary Functions, 1987)."""
    far = abs(z.re) > _FLAT[spelling_of(z.re.value)]
    near = where(far, z.re.number(0), z.re)
    s, t = near.of("sinh"), z.im.of("tan")
    u = 1 + t * t
    divisor = 1 + u * s * s
    rest = 4 * z.im.of("sin") * z.im.of("cos") * (abs(z.re) * -2).of("exp")
    re = where(far, z.re.number(1).of("copysign", z.re), u * s * near.of("cosh") / divisor)
    return Pair(re, where(far, rest, t / divisor))


# -- gradients --------------------------------------------------------------------------------
@imports("tanh_backward", "sigmoid_backward", complex_numbers=True)
def backward(b: GraphBuilder, node: torch.fx.Node, grad: Value, output: Value) -> Value:
    """The gradient times the conjugate of 1 - y², or of y (1 - y)."""
    spelling = spelling_of(output)
    y = Pair.of(b, output, spelling)
    rest = Pair(y.re.number(1), y.re.number(0)) - (y * y if "tanh" in str(node.target) else y)
    slope = rest if "tanh" in str(node.target) else y * rest
    return (Pair.of(b, grad, spelling) * slope.conjugate()).value
