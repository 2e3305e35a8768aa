"""Computes with symbolic sizes: numbers that only a call tells, and facts about them that hold in every call.

`polynomial` has the sizes themselves, which this package exports; `rules` rewrites polynomials by others that are 0 in
every call, `facts` finds divisors and consequences of zeros, `long_division` divides polynomials. Imports nothing of
cuesta but errors.
"""

from cuesta.sizes.polynomial import (
    Arithmetic,
    Monomial,
    Number,
    Operators,
    Quotient,
    Size,
    as_terms,
    assumed,
    assumptions,
    at,
    compute,
    estimate,
    hint,
    hints,
    number,
    of_sympy,
    parse,
    stride,
    symbol,
    symbols,
)

__all__ = [
    "Arithmetic",
    "Monomial",
    "Number",
    "Operators",
    "Quotient",
    "Size",
    "as_terms",
    "assumed",
    "assumptions",
    "at",
    "compute",
    "estimate",
    "hint",
    "hints",
    "number",
    "of_sympy",
    "parse",
    "stride",
    "symbol",
    "symbols",
]
