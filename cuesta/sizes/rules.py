"""Polynomials that are 0 in every call, and others by what these say.

    s0 // 2 - 1 is 0     3*(s0//2) + s1   →   s1 + 3

A polynomial is monomial → coefficient; a monomial is its atoms in the order of their text. The greatest monomial of one
that is 0 gives way to the others, so that a polynomial gets smaller with each step; a multiple gives way to the number
of times, where rules may go round in circles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from cuesta.sizes.long_division import without

Monomial: TypeAlias = tuple[Any, ...]
Polynomial: TypeAlias = Mapping[Monomial, int]


@dataclass(frozen=True)
class Rule:
    """`factor` (positive) times `lead` is the sum of `rest`."""

    lead: Monomial
    factor: int
    rest: tuple[tuple[Monomial, int], ...]


Rules: TypeAlias = tuple[Rule, ...]
_RULES: ContextVar[Rules] = ContextVar("rules", default=())

#: Steps that a polynomial takes at most. Each is right, so that to stop early only leaves equal ones that differ.
_STEPS = 400


def rule_of(zero: Polynomial) -> Rule | None:
    """What a polynomial that is 0 says of others; None where it says that a symbol is: no size would have it then."""
    lead = max(zero, key=_order, default=())
    if lead == () or (len(lead) == 1 and isinstance(lead[0], str)):
        return None
    sign = 1 if zero[lead] > 0 else -1
    return Rule(lead, sign * zero[lead], tuple((m, -sign * f) for m, f in zero.items() if m != lead))


def current() -> Rules:
    """Those within whose `follow` this is called."""
    return _RULES.get()


@contextmanager
def follow(rules: Iterable[Rule]) -> Iterator[None]:
    """Within it, `by_rules` goes by these."""
    token = _RULES.set(tuple(rules))
    try:
        yield
    finally:
        _RULES.reset(token)


def by_rules(polynomial: Polynomial) -> Polynomial:
    """The last polynomial that the rules make of one; without terms that are 0 where one was followed."""
    rules, left = _RULES.get(), dict(polynomial)
    for _ in range(_STEPS):
        if (step := _step(rules, left)) is None:
            break
        rule, times, others = step
        for term, factor in [(rule.lead, -rule.factor), *rule.rest]:
            product = tuple(sorted((*others, *term), key=str))
            left[product] = left.get(product, 0) + times * factor
        left = {m: f for m, f in left.items() if f}
    return left


def without_implied(rules: Iterable[Rule]) -> list[Rule]:
    """The rules but those that the others imply, the first ones first. Where s0 // s1 is s2, `s1*s2 → s0` and
    `s0 → s1*(s0//s1)` go round in a circle: either will do."""
    left = list(rules)
    for rule in list(left):
        others = [other for other in left if other is not rule]
        with follow(others):
            zero = by_rules({rule.lead: rule.factor} | {m: -f for m, f in rule.rest})
        if not any(zero.values()):
            left = others
    return left


def _step(rules: Rules, polynomial: Polynomial) -> tuple[Rule, int, Monomial] | None:
    """A rule to follow, how many times, and what else is in the monomial that has its lead."""
    for rule in rules:
        for monomial, factor in polynomial.items():
            others = without(monomial, rule.lead)
            # What is left has a coefficient of 0 to factor - 1: the same one for equal polynomials.
            if others is not None and factor // rule.factor:
                return rule, factor // rule.factor, others
    return None


def _order(monomial: Monomial) -> tuple[int, list[tuple[bool, str]]]:
    """More factors are greater, and quotients than symbols."""
    return len(monomial), sorted(((not isinstance(atom, str), str(atom)) for atom in monomial), reverse=True)
