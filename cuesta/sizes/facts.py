"""What is known of a size whatever the call is, and sizes in terms of others."""

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
    """A number that divides the size, as large as its terms tell: 16 for `64*s0 + 16*s1`, 0 for 0. `known` has one for
    symbols; others may be anything."""
    if not isinstance(size, Size):
        return abs(size)
    parts = (factor * math.prod(known.get(a, 1) for a in term if isinstance(a, str)) for term, factor in size.terms)
    return math.gcd(*parts)


def substituted(size: Number, values: Mapping[str, Number]) -> Number:
    """The size with other sizes in the place of its symbols. Raises KeyError for a symbol that has none."""
    return compute(size, values, Operators[Number]())


def primitive(size: Number) -> Number:
    """The size without what divides all its terms: it is 0 wherever that is not and the size is."""
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
    """What sizes that are 0 in every call say of others.

    Where 2 divides s0, that is twice `s0 // 2`: sizes that are made of it then have common factors, which reshapes and
    strides ask for.
    """
    with follow(()):
        found = [*_multiples(map(parse, zeros))]
    for zero in zeros:
        with follow(found):
            new = _of(parse(zero))  # as the rules so far have it
        found = without_implied([*found, *new])
    return tuple(found)


def _multiples(zeros: Iterable[Number]) -> Iterator[Rule]:
    """Of symbols that numbers divide."""
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
    """x and y where the size is `x % y`, or the difference of x and `x // y * y`."""
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
