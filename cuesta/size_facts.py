"""What is known of a size whatever the call is, and sizes in terms of others."""

from __future__ import annotations

import math
from collections.abc import Mapping

from cuesta.sizes import Number, Operators, Size, compute

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
