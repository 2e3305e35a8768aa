"""Imports arithmetic of complex numbers as arithmetic of their real and imaginary parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.complex_numbers import PARTS
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.frontend.aten.expressions import Expression, where
from cuesta.frontend.aten.pointwise import common_spelling, operand
from cuesta.frontend.aten.reduction import all_dims, variance
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports

#: Exponents for which eager multiplies too. For others eager uses logarithms, which treat infinities differently.
_POWERS = (-2, -1, 0, 1, 2, 3)


@dataclass(frozen=True)
class Pair:
    """A complex expression as its real and imaginary parts."""

    re: Expression
    im: Expression

    @staticmethod
    def of(b: GraphBuilder, x: Any, spelling: str) -> Pair:
        """A tensor or a number, of any type, as complex numbers of type `spelling`."""
        real, imag = b.parts(operand(b, x, spelling))
        return Pair(Expression(b, real), Expression(b, imag))

    @property
    def value(self) -> Value:
        return self.re.b.complex(self.re.value, self.im.value)

    def conjugate(self) -> Pair:
        return Pair(self.re, -self.im)

    def __add__(self, y: Pair) -> Pair:
        return Pair(self.re + y.re, self.im + y.im)

    def __sub__(self, y: Pair) -> Pair:
        return Pair(self.re - y.re, self.im - y.im)

    def __neg__(self) -> Pair:
        return Pair(-self.re, -self.im)

    def __mul__(self, y: Pair) -> Pair:
        return Pair(self.re * y.re - self.im * y.im, self.re * y.im + self.im * y.re)

    def __truediv__(self, y: Pair) -> Pair:
        """By Smith's method, which avoids squares: 1e30 / 1e30 is 1. A division by 0 divides each part as a real
        number, as ATen's scalar code does; ATen's vector code gives NaN."""
        zero = y.re.equals(0) & y.im.equals(0)
        wide = abs(y.re) >= abs(y.im)
        large, small = where(wide, y.re, y.im), where(wide, y.im, y.re)
        ratio = where(zero, large.number(0), small / large)
        divisor = where(zero, abs(large), large + small * ratio)
        # With re the larger part: (x.re + x.im r, x.im - x.re r); with im: (x.re r + x.im, x.im r - x.re).
        re = where(wide, self.re, self.im) + where(wide, self.im, self.re) * ratio
        im = where(wide, self.im, -self.re) + where(wide, -self.re, self.im) * ratio
        return Pair(re / divisor, im / divisor)

    def __abs__(self) -> Expression:
        return self.re.of("hypot", self.im)

    def reciprocal(self) -> Pair:
        return self.one() / self

    def power(self, exponent: int) -> Pair:
        """Raises to an integer power by multiplication."""
        match exponent:
            case 0:
                return self.one()
            case 1:
                return self
        return self.power(-exponent).reciprocal() if exponent < 0 else self.power(exponent - 1) * self

    def one(self) -> Pair:
        """Ones of this expression's shape."""
        b, x = self.re.b, self.re.value
        return Pair(*(Expression(b, b.constant(n, spelling_of(x), shape_of(x))) for n in (1, 0)))


Made = TypeVar("Made", Pair, Expression)


def pairs(b: Call, spelling: str, *xs: Any) -> list[Pair]:
    """The operands of a pointwise call. A complex operand is broadcast before it is split into parts, so that the
    kernel that uses the parts also splits them."""
    sizes = b.meta.shape
    tensors = [b.expand(x, sizes) if isinstance(x, ir.Value) and spelling_of(x) in PARTS else x for x in xs]
    return [Pair.of(b, x, spelling) for x in tensors]


def on_complex(*names: str) -> Callable[[Callable[[Pair], Made]], Callable[[Pair], Made]]:
    """Registers a function of one complex number as the rule of the ops `names`; the function stays callable."""

    def enter(function: Callable[[Pair], Made]) -> Callable[[Pair], Made]:
        @imports(*names, complex_numbers=True)
        def rule(b: Call, x: Value, *rest: Any) -> Value:
            if rest:
                raise Decline("the rule for complex numbers takes one operand, and this overload has more arguments")
            return function(Pair.of(b, x, spelling_of(x))).value

        return function

    return enter


# -- views ------------------------------------------------------------------------------------
imports("view_as_real", complex_numbers=True)(lambda b, x: b.view_as_real(x))
imports("view_as_complex", complex_numbers=True)(lambda b, x: b.view_as_complex(x))
imports("resolve_conj", "resolve_neg", complex_numbers=True)(lambda b, x: x)
imports("_neg_view")(lambda b, x: b.pointwise("neg", x))
imports("complex", complex_numbers=True)(lambda b, re, im: b.complex(re, im))


# -- arithmetic -------------------------------------------------------------------------------
@imports("add", "sub", "rsub", complex_numbers=True)
def add(b: Call, x: Any, y: Any, alpha: complex = 1) -> Value:
    spelling, name = b.spelling, b.name
    left, right = pairs(b, spelling, *((y, x) if name == "rsub" else (x, y)))
    if alpha != 1:
        right = right * Pair.of(b, alpha, spelling)
    return (left + right if name == "add" else left - right).value


@imports("mul", complex_numbers=True)
def mul(b: Call, x: Any, y: Any) -> Value:
    left, right = pairs(b, b.spelling, x, y)
    return (left * right).value


@imports("div", "true_divide", complex_numbers=True)
def div(b: Call, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    left, right = pairs(b, b.spelling, x, y)
    return (left / right).value


@imports("addcmul", "addcdiv", complex_numbers=True)
def addcmul(b: Call, x: Value, y: Any, z: Any, value: complex = 1) -> Value:
    spelling = b.spelling
    start, left, right = pairs(b, spelling, x, y, z)
    if value != 1:
        left = Pair.of(b, value, spelling) * left
    return (start + (left * right if "addcmul" in b.name else left / right)).value


@imports("lerp", complex_numbers=True)
def lerp(b: Call, start: Value, end: Value, weight: Any) -> Value:
    """Interpolates from the nearer end, as ATen does."""
    first, last, share = pairs(b, b.spelling, start, end, weight)
    apart = last - first
    from_first, from_last = first + share * apart, last - apart * (share.one() - share)
    near = abs(share) < 0.5
    return Pair(where(near, from_first.re, from_last.re), where(near, from_first.im, from_last.im)).value


@imports("pow", complex_numbers=True)
def power(b: Call, x: Any, exponent: Any) -> Value:
    """Raises to a small integer power."""
    known = exponent.real if isinstance(exponent, complex) and exponent.imag == 0 else exponent
    if not isinstance(known, (int, float)) or known not in _POWERS:
        raise Decline(f"complex power with an exponent other than {', '.join(map(str, _POWERS))}")
    return Pair.of(b, x, b.spelling).power(int(known)).value


@on_complex("sgn")
def sgn(z: Pair) -> Pair:
    """z / |z|; 0 for 0."""
    length = abs(z)
    zero = length.equals(0)
    return Pair(*(where(zero, part.number(0), part / length) for part in (z.re, z.im)))


on_complex("neg")(lambda z: -z)
on_complex("_conj", "_conj_copy", "conj_physical", "_conj_physical", "conj")(Pair.conjugate)
on_complex("square")(lambda z: z * z)
on_complex("reciprocal")(Pair.reciprocal)
on_complex("abs")(Pair.__abs__)
on_complex("angle")(lambda z: z.im.of("atan2", z.re))
on_complex("real")(lambda z: z.re)
on_complex("imag")(lambda z: z.im)


# -- comparisons ------------------------------------------------------------------------------
@imports("eq", "ne", complex_numbers=True)
def equal(b: Call, x: Any, y: Any) -> Value:
    left, right = pairs(b, common_spelling(b, 0, 1), x, y)
    if b.name == "eq":
        return (left.re.equals(right.re) & left.im.equals(right.im)).value
    return (left.re.of("ne", right.re) | left.im.of("ne", right.im)).value


@imports("logical_and", "logical_or", "logical_xor", "logical_not", complex_numbers=True)
def logical(b: Call, *xs: Value) -> Value:
    return b.pointwise(b.name, *(b.convert(x, "i1") for x in xs))


@on_complex("isfinite")
def isfinite(z: Pair) -> Expression:
    # Subtracting a part from itself gives 0 if the part is finite, else NaN.
    gap = z - z
    return gap.re.equals(0) & gap.im.equals(0)


on_complex("isnan")(lambda z: z.re.of("isnan") | z.im.of("isnan"))
on_complex("isinf")(lambda z: z.re.of("isinf") | z.im.of("isinf"))


# -- reductions -------------------------------------------------------------------------------
def _each(b: GraphBuilder, x: Value, spelling: str, compute: Callable[[Value], Value]) -> Value:
    """Applies `compute` to each part."""
    return b.complex(*(compute(part) for part in b.parts(b.convert(x, spelling))))


@imports("sum", "mean", complex_numbers=True)
def total(b: Call, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
    reduce = b.mean if b.name == "mean" else lambda *args: b.reduce("sum", *args)
    chosen = all_dims(x, dims)
    return _each(b, x, b.spelling, lambda part: reduce(part, chosen, keepdim))


@imports("cumsum", complex_numbers=True)
def running(b: Call, x: Value, dim: int, **_: Any) -> Value:
    result = b.spelling
    if not shape_of(x):
        return b.convert(x, result)
    along = dim % len(shape_of(x))
    return _each(b, x, result, lambda part: reduction.CumSum(part, along, part.type).result)


@imports("var.correction", "var_mean.correction", "std.correction", complex_numbers=True)
def var(b: Call, x: Value, dims: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Any:
    """The variance is the sum of the parts' variances."""
    found = [
        variance(b, part, all_dims(x, dims), 1 if correction is None else correction, keepdim) for part in b.parts(x)
    ]
    (real, real_mean), (imag, imag_mean) = found
    value = b.pointwise("add", real, imag)
    match b.name:
        case "var_mean":
            return [value, b.complex(real_mean, imag_mean)]
        case "std":
            return b.pointwise("sqrt", value)
    return value
