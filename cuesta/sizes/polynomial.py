"""Implements symbolic sizes: polynomials over the numbers that a call brings, such as `64*s0 + s1`.

    s0 = symbol("s0")
    64 * s0 // 64 == s0          # decided by normal form
    at(64 * s0 + 1, {"s0": 8})   # 513

A number is an int if it is known, else a `Size`. Arithmetic mixes both, and gives an int if the symbols cancel; a
torch.SymInt beside a Size counts as one. Equal means equal for all values of the symbols. Sizes have no order except
within `assumptions`; `hint` gives a rough magnitude. Printed text is Python's; `parse` of `text` reads it back.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import torch

from cuesta.errors import Undecided, Unsupported
from cuesta.sizes.long_division import quotient, without
from cuesta.sizes.rules import bound, by_rules, current

T = TypeVar("T")
#: A size, stride or offset.
Number: TypeAlias = "int | Size"
N = TypeVar("N", int, "int | Size")

_HINTS: ContextVar[Mapping[str, int]] = ContextVar("hints", default={})  # noqa: B039  never written to
_ASSUMED: ContextVar[dict[str, bool]] = ContextVar("assumed")
#: The names of the classes, of sympy and of torch, from which a size may be converted.
_COMPUTED = frozenset({"Add", "Mul", "Pow", "FloorDiv", "CleanDiv", "Mod", "PythonMod"})
#: The number that `hint` uses for a symbol whose value nobody gave.
_USUAL = 64


@dataclass(frozen=True)
class Quotient:
    """`x // y`, or with `rest` `x % y`, which does not simplify; y is not negative."""

    x: Number
    y: Number
    rest: bool

    def __str__(self) -> str:
        return f"({_factor(self.x)} {'%' if self.rest else '//'} {_factor(self.y)})"


Atom: TypeAlias = "str | Quotient"
Monomial: TypeAlias = tuple[Atom, ...]


@dataclass(frozen=True, eq=False)
class Size:
    """A sum of products: pairs of a monomial, which is its sorted atoms, and a coefficient, which is not 0."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Number) -> Number:
        total = dict(self.terms)
        for monomial, factor in as_terms(other):
            total[monomial] = total.get(monomial, 0) + factor
        return _collected(total)

    def __mul__(self, other: Number) -> Number:
        total: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in as_terms(other):
                monomial = tuple(sorted((*left, *right), key=str))
                total[monomial] = total.get(monomial, 0) + a * b
        return _collected(total)

    def __floordiv__(self, other: Number) -> Number:
        return _divide(self, other, rest=False)

    def __mod__(self, other: Number) -> Number:
        return _divide(self, other, rest=True)

    def __rfloordiv__(self, other: int) -> Number:
        return _divide(other, self, rest=False)

    def __rmod__(self, other: int) -> Number:
        return _divide(other, self, rest=True)

    def __neg__(self) -> Number:
        return self * -1

    def __sub__(self, other: Number) -> Number:
        return self + other * -1

    def __rsub__(self, other: Number) -> Number:
        return self * -1 + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Size, torch.SymInt)) and self.terms == as_terms(other)

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.terms)

    def __hash__(self) -> int:
        return self._hash

    def __lt__(self, other: Number) -> bool:
        return _is_negative(self - other)

    def __gt__(self, other: Number) -> bool:
        return _is_negative(other - self)

    def __le__(self, other: Number) -> bool:
        return not _is_negative(other - self)

    def __ge__(self, other: Number) -> bool:
        return not _is_negative(self - other)

    def _no_number(self, *_: object) -> bool:
        raise Undecided(f"the code needs a number for {self}, which depends on the call")

    __bool__ = __int__ = __float__ = __index__ = _no_number

    @property
    def is_symbol(self) -> bool:
        """Whether the size is a single symbol."""
        return _is_atom(self) and isinstance(self.terms[0][0][0], str)

    def __str__(self) -> str:
        return self._text

    @functools.cached_property
    def _text(self) -> str:
        text = ""
        for monomial, factor in self.terms:
            product = "*".join([*([str(abs(factor))] if abs(factor) != 1 or not monomial else []), *map(str, monomial)])
            text += (" - " if factor < 0 else " + ") + product
        return text[3:] if text.startswith(" + ") else "-" + text[3:]

    __repr__ = __str__


def symbol(name: str) -> Size:
    """The symbol of that name, an identifier."""
    return Size((((name,), 1),))


def number(value: int | torch.SymInt | Size) -> Number:
    """A size of torch's as a Number. Raises Unsupported for a SymInt beyond sums, products, // and %, and extremes that
    torch's bounds decide: `Max(1, s0)` is s0 where s0 is at least 1."""
    if not isinstance(value, torch.SymInt):
        return value
    known = value.node.maybe_as_int()
    if known is not None:
        return known
    try:
        return of_sympy(value.node.expr)
    except Unsupported:  # asked for second, because bounds take longer than sizes without extremes
        return of_sympy(_with_decided_extremes(value.node))


def _with_decided_extremes(node: Any) -> Any:
    """The expression with each Max and Min replaced by the argument that it is in every call, where one is."""

    def decided(extreme: Any) -> Any:
        for one in extreme.args:
            differences = [one - other if type(extreme).__name__ == "Max" else other - one for other in extreme.args]
            if all(node.shape_env.bound_sympy(d).lower >= 0 for d in differences):
                return one
        return extreme

    return node.expr.replace(lambda e: type(e).__name__ in ("Max", "Min"), decided)


def stride(value: int | torch.SymInt | Size) -> Number:
    """As `number`, but `Max(1, s0)` is s0: the two differ only without elements, where strides mean nothing. The same
    holds for offsets, which are sums of strides."""
    if isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None:
        return of_sympy(value.node.expr.replace(lambda e: type(e).__name__ == "Max", _without_one))
    return number(value)


def _without_one(maximum: Any) -> Any:
    others = [a for a in maximum.args if a != 1]
    return others[0] if len(others) == 1 else maximum


def of_sympy(expression: Any) -> Number:
    """Converts a sympy expression by its classes' names. A saved program has no sympy, which takes long to import."""
    if expression.is_Integer:
        return int(expression)
    if expression.is_Symbol:
        return _collected({(expression.name,): 1})
    name = type(expression).__name__
    if name not in _COMPUTED:
        raise Unsupported(f"a size of {expression}: only sums, products, // and % are computed")
    arguments = [of_sympy(a) for a in expression.args]
    match name:
        case "Add":
            return sum(arguments)
        case "Mul":
            return math.prod(arguments)
        case "Pow":
            base, exponent = arguments
            if not isinstance(exponent, int) or exponent < 0:
                raise Unsupported(f"a size of {expression}: only whole powers are computed")
            return math.prod([base] * exponent)
        case "Mod" | "PythonMod":
            return arguments[0] % arguments[1]
        case _:
            return arguments[0] // arguments[1]


def as_terms(value: int | torch.SymInt | Size) -> tuple[tuple[Monomial, int], ...]:
    """The terms of a number: an int is one term without atoms, and 0 has none."""
    known = number(value)
    if isinstance(known, Size):
        return known.terms
    return (((), known),) if known else ()


def _collected(total: Mapping[Monomial, int]) -> Number:
    total = by_rules(total) if current() else total
    terms = tuple(sorted(((m, f) for m, f in total.items() if f), key=lambda term: (-len(term[0]), str(term[0]))))
    if not terms:
        return 0
    if terms[0][0] == ():
        return terms[0][1]
    return Size(terms)


def _divide(x: Number, y: Number, rest: bool) -> Number:
    """Divides term by term; what does not divide becomes a Quotient atom."""
    if y == 1:
        return 0 if rest else x
    divisor = as_terms(y)
    if len(divisor) == 1:
        ((monomial, factor),) = divisor
        whole: dict[Monomial, int] = {}
        left: dict[Monomial, int] = {}
        for term, f in as_terms(x):
            kept = without(term, monomial)
            if kept is None or f % factor:
                left[term] = f
            else:
                whole[kept] = f // factor
        # Multiples of y are split off: (64*s0 + r) // 64 is s0 + r // 64.
        if whole or not left:
            remainder = _collected(left)
            inner = 0 if remainder == 0 else _divide(remainder, y, rest)
            return inner if rest else _collected(whole) + inner
    if isinstance(x, int) and isinstance(y, int):
        return x % y if rest else x // y
    exact = quotient(dict(as_terms(x)), dict(divisor))
    if exact is not None:
        return 0 if rest else _collected(exact)
    return _collected({(Quotient(x, y, rest),): 1})


def _factor(value: Number) -> str:
    return str(value) if isinstance(value, int) or _is_atom(value) else f"({value})"


def _is_atom(size: Size) -> bool:
    ((monomial, factor), *more) = size.terms
    return not more and factor == 1 and len(monomial) == 1


# -- values -----------------------------------------------------------------------------------
class Arithmetic(Protocol[T]):
    """How to compute with values that stand for numbers."""

    def constant(self, number: int) -> T: ...

    def add(self, x: T, y: T) -> T: ...

    def multiply(self, x: T, y: T) -> T: ...

    def divide(self, x: T, y: T, rest: bool) -> T: ...


def compute(size: Number, values: Mapping[str, T], using: Arithmetic[T]) -> T:
    """Evaluates the size from its symbols' values. Raises KeyError for a symbol that has none."""
    if isinstance(size, int):
        return using.constant(size)
    products = []
    for term, factor in size.terms:
        factors = [] if factor == 1 and term else [using.constant(factor)]
        for atom in term:
            if isinstance(atom, str):
                factors.append(values[atom])
            else:
                x, y = (compute(n, values, using) for n in (atom.x, atom.y))
                factors.append(using.divide(x, y, atom.rest))
        products.append(functools.reduce(using.multiply, factors))
    return functools.reduce(using.add, products)


class Operators(Generic[N]):
    """Python's operators, on ints or on sizes."""

    def constant(self, number: int) -> N:
        return number

    def add(self, x: N, y: N) -> N:
        return x + y

    def multiply(self, x: N, y: N) -> N:
        return x * y

    def divide(self, x: N, y: N, rest: bool) -> N:
        return x % y if rest else x // y


def at(size: Number, values: Mapping[str, int]) -> int:
    """The size where the symbols have these values. Raises KeyError for a symbol without one."""
    return compute(size, values, Operators[int]())


def symbols(size: Number) -> set[str]:
    """The names of the symbols in a number."""
    found: set[str] = set()
    for term, _ in as_terms(size):
        for atom in term:
            found |= {atom} if isinstance(atom, str) else symbols(atom.x) | symbols(atom.y)
    return found


def _is_negative(size: Number) -> bool:
    """Whether the hints make the size negative; noted as an assumption, with which calls must agree."""
    if isinstance(size, int):
        return size < 0
    noted = _ASSUMED.get(None)
    if noted is None:
        raise Undecided(f"the code branches on the sign of {size}, which depends on the call")
    return noted.setdefault(str(size), hint(size) < 0)


def assumptions() -> AbstractContextManager[dict[str, bool]]:
    """Within this context, `hint` decides comparisons that depend on the call; outside, they raise Undecided.

    Yields size → whether it is negative, for the sizes so decided. Later calls must agree with these signs."""
    return bound(_ASSUMED, {})


def assumed() -> dict[str, bool]:
    """The assumptions noted so far; empty outside of `assumptions`."""
    return dict(_ASSUMED.get({}))


def hints(values: Mapping[str, int]) -> AbstractContextManager[Mapping[str, int]]:
    """Within this context, `hint` uses these values of symbols."""
    return bound(_HINTS, values)


def hint(size: Number) -> int:
    """About how large the size is: for estimates of cost, never for correctness."""
    if isinstance(size, int):
        return size
    known = _HINTS.get()
    return at(size, {name: known.get(name, _USUAL) for name in symbols(size)})


def estimate(sizes: Iterable[Number]) -> int:
    """About how many elements a tensor of those sizes has."""
    return math.prod(map(hint, sizes))
