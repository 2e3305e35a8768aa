"""Symbolic sizes: numbers that a call brings, and what is known of them whatever the call is.

`polynomial` has the sizes themselves, which this package names; `rules` says which polynomials are 0 in every call,
`facts` what divides a size or bounds it, `long_division` divides polynomials. Imports nothing of cuesta but errors.
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
