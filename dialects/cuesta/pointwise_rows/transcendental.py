"""Rows of exponentials, logarithms, trigonometric and hyperbolic functions and their inverses."""

import math as pymath
from typing import TypeAlias

import torch

from cuesta._mlir import ir, math
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise, unary
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


def _atan2(s: Scalar, y: Value, x: Value) -> Value:
    """MLIR folds the angle of two constant zeros to NaN, so this selects the angle of two zeros itself: 0 or pi."""
    zero, one = s.const(x, 0), s.const(x, 1)
    both = s.compare("eq", s.maximum(s.abs(y), s.abs(x)), zero)
    flat = s.select(s.compare("lt", math.copysign(one, x), zero), s.const(x, pymath.pi), zero)
    return s.select(both, math.copysign(flat, y), math.atan2(y, x))


ROWS: tuple[Pointwise, ...] = (
    Pointwise("exp", 1, unary(math.exp), torch.exp, "float", cost=10),
    Pointwise("exp2", 1, unary(math.exp2), torch.exp2, "float", cost=10),
    Pointwise("expm1", 1, unary(math.expm1), torch.expm1, "float", cost=12),
    Pointwise("log", 1, unary(math.log), torch.log, "float", cost=12),
    Pointwise("log2", 1, unary(math.log2), torch.log2, "float", cost=12),
    Pointwise("log10", 1, unary(math.log10), torch.log10, "float", cost=12),
    Pointwise("log1p", 1, unary(math.log1p), torch.log1p, "float", cost=14),
    Pointwise("erf", 1, unary(math.erf), torch.erf, "float", cost=14),
    Pointwise("erfc", 1, unary(math.erfc), torch.erfc, "float", cost=24),
    Pointwise("tanh", 1, unary(math.tanh), torch.tanh, "float", cost=12),
    Pointwise("sin", 1, unary(math.sin), torch.sin, "float", cost=14),
    Pointwise("cos", 1, unary(math.cos), torch.cos, "float", cost=14),
    Pointwise("tan", 1, unary(math.tan), torch.tan, "float", cost=18),
    Pointwise("asin", 1, unary(math.asin), torch.asin, "float", cost=14),
    Pointwise("acos", 1, unary(math.acos), torch.acos, "float", cost=14),
    Pointwise("atan", 1, unary(math.atan), torch.atan, "float", cost=18),
    Pointwise("atan2", 2, _atan2, torch.atan2, "float", cost=24),
    Pointwise("sinh", 1, unary(math.sinh), torch.sinh, "float", cost=20),
    Pointwise("cosh", 1, unary(math.cosh), torch.cosh, "float", cost=16),
    Pointwise("asinh", 1, unary(math.asinh), torch.asinh, "float", cost=28),
    Pointwise("acosh", 1, unary(math.acosh), torch.acosh, "float", cost=24),
    Pointwise("atanh", 1, unary(math.atanh), torch.atanh, "float", cost=20),
    Pointwise("sigmoid", 1, lambda s, x: s.sigmoid(x), torch.sigmoid, "float", cost=15),
)
