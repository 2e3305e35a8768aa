"""The table of pointwise ops, one module a family."""

from cuesta.dialects.cuesta.pointwise_rows import (
    activations,
    arithmetic,
    bessel,
    error_functions,
    float_bits,
    gamma_functions,
    incomplete_gamma,
    logic,
    modified_bessel,
    orthogonal_polynomials,
    transcendental,
    zeta,
)
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise

__all__ = ["ROWS", "Pointwise"]

ROWS: tuple[Pointwise, ...] = (
    *arithmetic.ROWS,
    *transcendental.ROWS,
    *logic.ROWS,
    *activations.ROWS,
    *gamma_functions.ROWS,
    *incomplete_gamma.ROWS,
    *error_functions.ROWS,
    *float_bits.ROWS,
    *modified_bessel.ROWS,
    *bessel.ROWS,
    *orthogonal_polynomials.ROWS,
    *zeta.ROWS,
)
