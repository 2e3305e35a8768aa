"""Defines the cuesta dialect: functional tensor ops with ATen's names and meaning.

Importing this package defines every op of it."""

from cuesta.dialects.cuesta import (
    attention,
    complex_numbers,
    contraction,
    indexing,
    normalisation,
    pointwise,
    random,
    reduction,
    scatter,
    shape,
)
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS, Cuesta

__all__ = [
    "REFERENCES",
    "VERIFIERS",
    "Cuesta",
    "attention",
    "complex_numbers",
    "contraction",
    "indexing",
    "normalisation",
    "pointwise",
    "random",
    "reduction",
    "scatter",
    "shape",
]
