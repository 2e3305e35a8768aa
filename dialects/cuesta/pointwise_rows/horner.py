"""Builds polynomials of one element, for rows that approximate their functions."""

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir, math
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


def polynomial(s: Scalar, x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule; coefficients from the highest power down to the constant."""
    value = s.const(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = math.fma(value, x, s.const(x, coefficient))
    return value


def affine(s: Scalar, x: Value, factor: float, addend: float) -> Value:
    """factor · x + addend, rounded once."""
    return math.fma(x, s.const(x, factor), s.const(x, addend))
