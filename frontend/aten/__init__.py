"""ATen → cuesta, one module a family. Importing this package registers every rule."""

from cuesta.frontend.aten import (
    attention,
    contraction,
    creation,
    division,
    indexing,
    normalisation,
    pointwise,
    pooling,
    reduction,
    resizing,
    shape,
    strided,
)

__all__ = [
    "attention",
    "contraction",
    "creation",
    "division",
    "indexing",
    "normalisation",
    "pointwise",
    "pooling",
    "reduction",
    "resizing",
    "shape",
    "strided",
]
