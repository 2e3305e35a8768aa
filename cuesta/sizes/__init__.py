"""Computes with symbolic sizes: numbers that only a call tells, and facts about them that hold in every call.

`polynomial` has the sizes themselves, and `text` reads them from text: their names are this package's. `rules`
rewrites polynomials by others that are 0 in every call, `facts` finds divisors and consequences of zeros,
`long_division` divides polynomials. Imports nothing of cuesta but errors.
"""

from cuesta.sizes.polynomial import *  # noqa: F403
from cuesta.sizes.text import parse as parse
