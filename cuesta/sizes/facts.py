"""Derives facts about sizes that hold in every call, and substitutes sizes for symbols."""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from cuesta.sizes import Monomial, Number, Operators, Quotient, Size, as_terms, compute, parse, symbol, symbols
from cuesta.sizes.rules import Rule, follow, rule_of, without_implied

_NONE: Mapping[str, int] = {}


def divisor_of(size: Number, known: Mapping[str, int] = _NONE) -> int:
    """The greatest number that, by its terms, divides the size: 16 for `64*s0 + 16*s1`, 0 for 0. `known` has known
    divisors of symbols; other symbols may have any value."""
    if not isinstance(size, Size):
        return abs(size)
    parts = (factor * math.prod(known.get(a, 1) for a in term if isinstance(a, str)) for term, factor in size.terms)
    return math.gcd(*parts)


def substituted(size: Number, values: Mapping[str, Number]) -> Number:
    """The size with its symbols replaced by sizes. Raises KeyError for a symbol that is not in `values`."""
    return compute(size, values, Operators[Number]())


def primitive(size: Number) -> Number:
    """The size divided by the greatest common divisor of its terms: it is 0 wherever the size is 0 and that divisor is
    not."""
    if not isinstance(size, Size):
        return size
    names = [Counter(a for a in monomial if isinstance(a, str)) for monomial, _ in size.terms]
    shared = functools.reduce(operator.and_, names)
    divisor: Number = math.gcd(*(f for _, f in size.terms))
    for name in shared.elements():
        divisor *= symbol(name)
    return size // divisor


@functools.lru_cache(maxsize=64)
def rules(zeros: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rules that follow from sizes that are 0 in every call.

    If 2 divides s0, s0 is rewritten as twice `s0 // 2`, so that sizes that contain s0 get the common factors that
    reshapes and strides need.
    """
    with follow(()):
        found = [*_multiples(map(parse, zeros))]
    for zero in zeros:
        with follow(found):
            new = _of(parse(zero))  # simplified by the rules so far
        found = without_implied([*found, *new])
    return tuple(found)


def _multiples(zeros: Iterable[Number]) -> Iterator[Rule]:
    """The rules for symbols that are multiples of numbers."""
    divisors: dict[Size, int] = {}
    for x, y in filter(None, map(_division, zeros)):
        if isinstance(x, Size) and x.is_symbol and isinstance(y, int):
            divisors[x] = math.lcm(divisors.get(x, 1), y)
    return (Rule(x.terms[0][0], 1, as_terms(x // y * y)) for x, y in divisors.items())


def _of(zero: Number) -> list[Rule]:
    found = [rule_of(dict(as_terms(zero)))]
    if (division := _division(zero)) is not None:
        x, y = division
        if isinstance(x, Size) and _is_product(x) and not symbols(x) & symbols(y):
            return [Rule(x.terms[0][0], 1, as_terms(x // y * y))]
        multiple = as_terms(x // y * y)
        if len(multiple) == 1:
            ((monomial, factor),) = multiple
            found = [Rule(monomial, factor, as_terms(x)), rule_of(dict(as_terms(x % y)))]
    return [rule for rule in found if rule is not None]


def _division(zero: Number) -> tuple[Number, Number] | None:
    """The x and y of which the zero size says that y divides x: it is `x % y`, or the difference of x and `x // y *
    y`."""
    for monomial, _ in as_terms(zero):
        for atom in monomial:
            if isinstance(atom, Quotient):
                x, y = atom.x, atom.y
                if zero == _size((atom,)) if atom.rest else zero in (x - _size((atom,)) * y, _size((atom,)) * y - x):
                    return x, y
    return None


def _is_product(size: Size) -> bool:
    return len(size.terms) == 1 and size.terms[0][1] == 1


def _size(monomial: Monomial) -> Size:
    return Size(((monomial, 1),))
