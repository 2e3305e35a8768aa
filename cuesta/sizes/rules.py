"""Rewrites polynomials by rules that follow from polynomials that are 0 in every call.

    s0 // 2 - 1 is 0     3*(s0//2) + s1   →   s1 + 3
    s0 + s1 - 8 is 0     4*s0 + 4*s1      →   32

A polynomial maps monomials to coefficients; a monomial is its atoms sorted by their text. A rule replaces the greatest
monomial of a zero polynomial by the other terms, so each step makes a polynomial smaller. A rule that replaces a
multiple x of y by `x // y * y` does not, so rules may form cycles.

A symbol stays unless it equals another, because it is the size of something. Where the greatest monomial is a symbol,
only a sum of several is replaced, such as that of the sizes of a tensor's parts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from cuesta.sizes.long_division import without

T = TypeVar("T")
Monomial: TypeAlias = tuple[Any, ...]
Polynomial: TypeAlias = Mapping[Monomial, int]


@dataclass(frozen=True)
class Rule:
    """`factor` (positive) times `lead` is the sum of `rest`."""

    lead: Monomial
    factor: int
    rest: tuple[tuple[Monomial, int], ...]
    #: terms that are replaced together with `lead`
    beside: tuple[tuple[Monomial, int], ...] = ()


Rules: TypeAlias = tuple[Rule, ...]
_RULES: ContextVar[Rules] = ContextVar("rules", default=())

#: The most steps for one polynomial. Each step preserves the value, so stopping early only leaves equal polynomials in
#: different forms.
_STEPS = 400


def rule_of(zero: Polynomial) -> Rule | None:
    """The rule that follows from a zero polynomial; None if it would replace a symbol alone by anything but another
    symbol, since then no size would have the symbol."""
    lead = max(zero, key=_order, default=())
    if lead == ():
        return None
    is_symbol = len(lead) == 1 and isinstance(lead[0], str)
    are_two_symbols = all(zero) and sorted(zero.values()) == [-1, 1]
    if not is_symbol or are_two_symbols:
        return _for_lead(zero, lead)
    # The longer of the two sums of symbols that are equal, if it has several.
    sides = [[m for m, f in zero.items() if m and (f > 0) is more] for more in (True, False)]
    longer = max(sides, key=len)
    return _for_lead(zero, max(longer, key=_order), longer) if len(longer) > 1 else None


def _for_lead(zero: Polynomial, lead: Monomial, together: Collection[Monomial] = ()) -> Rule:
    """The rule that replaces a monomial, or several `together`, whose coefficients have one sign."""
    sign = 1 if zero[lead] > 0 else -1
    others = [(m, f) for m, f in zero.items() if m != lead]
    beside = tuple((m, abs(f)) for m, f in others if m in together)
    return Rule(lead, abs(zero[lead]), tuple((m, -sign * f) for m, f in others), beside)


def current() -> Rules:
    """The rules of the innermost `follow`."""
    return _RULES.get()


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Within this context the variable has this value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


def follow(rules: Iterable[Rule]) -> AbstractContextManager[Rules]:
    """Within this context `by_rules` applies these rules."""
    return bound(_RULES, tuple(rules))


def by_rules(polynomial: Polynomial) -> Polynomial:
    """Applies the rules to a polynomial until none applies. Removes terms that are 0 only if a rule was applied."""
    rules, left = _RULES.get(), dict(polynomial)
    for _ in range(_STEPS):
        if (step := _step(rules, left)) is None:
            break
        rule, times, others = step
        for term, factor in [(rule.lead, -rule.factor), *rule.rest]:
            product = _product(others, term)
            left[product] = left.get(product, 0) + times * factor
        left = {m: f for m, f in left.items() if f}
    return left


def without_implied(rules: Iterable[Rule]) -> list[Rule]:
    """Removes rules that the other rules imply, the first ones first. Where s0 // s1 is s2, `s1*s2 → s0` and `s0 →
    s1*(s0//s1)` form a cycle: either suffices. A rule whose lead the others replace becomes what is left of it: where 2
    divides s0 - s1, and half of it is 0, s1 is s0."""
    left, kept = list(rules), list[Rule]()
    while left:
        rule = left.pop(0)
        with follow([*kept, *left]):
            zero = by_rules({rule.lead: rule.factor} | {m: -f for m, f in rule.rest})
        rest = {m: f for m, f in zero.items() if f}
        if rest:
            kept.append((None if rule.lead in rest else rule_of(rest)) or rule)
    return kept


def _step(rules: Rules, polynomial: Polynomial) -> tuple[Rule, int, Monomial] | None:
    """A rule that applies, how many times, and the other atoms of the monomial that contains its lead."""
    for rule in rules:
        for monomial, factor in polynomial.items():
            others = without(monomial, rule.lead)
            if others is not None and (times := _times(rule, others, factor, polynomial)):
                return rule, times, others
    return None


def _times(rule: Rule, others: Monomial, factor: int, polynomial: Polynomial) -> int:
    """How many times a rule applies to the monomial of its lead and `others`, which has this factor."""
    if not rule.beside:
        # Leaves a coefficient from 0 to factor - 1, so that equal polynomials are reduced to the same form.
        return factor // rule.factor
    sign = 1 if factor > 0 else -1
    found = [sign * polynomial.get(_product(others, term), 0) // own for term, own in rule.beside]
    return sign * max(min(sign * factor // rule.factor, *found), 0)


def _product(x: Monomial, y: Monomial) -> Monomial:
    return tuple(sorted((*x, *y), key=str))


def _order(monomial: Monomial) -> tuple[int, list[tuple[bool, str]]]:
    """A monomial of more atoms is greater; of equally many, quotients are greater than symbols."""
    return len(monomial), sorted(((not isinstance(atom, str), str(atom)) for atom in monomial), reverse=True)
