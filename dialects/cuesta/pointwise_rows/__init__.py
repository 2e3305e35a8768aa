"""The table of pointwise ops, one module a family."""

from cuesta.dialects.cuesta.pointwise_rows import activations, arithmetic, logic, transcendental
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise

__all__ = ["ROWS", "Pointwise"]

ROWS: tuple[Pointwise, ...] = (*arithmetic.ROWS, *transcendental.ROWS, *logic.ROWS, *activations.ROWS)
