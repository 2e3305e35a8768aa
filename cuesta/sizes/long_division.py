"""Divides polynomials, which map monomials to coefficients. A monomial is a tuple of its atoms, sorted by their
text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

A = TypeVar("A")


def quotient(x: Mapping[tuple[A, ...], int], y: Mapping[tuple[A, ...], int]) -> dict[tuple[A, ...], int] | None:
    """x / y by long division, None unless that is a polynomial with whole coefficients, as (3*s - 6) / (s - 2) is."""
    left, found = dict(x), dict[tuple[A, ...], int]()
    lead = max(y, key=_order)
    while left:
        term = max(left, key=_order)
        kept = without(term, lead)
        if kept is None or left[term] % y[lead]:
            return None
        found[kept] = left[term] // y[lead]
        for monomial, factor in y.items():  # cancels the leading term; new terms are smaller
            product = tuple(sorted((*kept, *monomial), key=str))
            left[product] = left.get(product, 0) - found[kept] * factor
        left = {monomial: factor for monomial, factor in left.items() if factor}
    return found


def _order(monomial: tuple[A, ...]) -> tuple[int, list[str]]:
    return len(monomial), [str(atom) for atom in monomial]


def without(term: tuple[A, ...], divisor: tuple[A, ...]) -> tuple[A, ...] | None:
    """The atoms of `term` that are not in `divisor`; None if `divisor` has others."""
    atoms = list(term)
    for atom in divisor:
        if atom not in atoms:
            return None
        atoms.remove(atom)
    return tuple(atoms)
