"""ATen → cuesta, one module a family. Importing this package registers every rule."""

from cuesta.frontend.aten import (
    attention,
    batch_norm,
    called,
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
    "batch_norm",
    "called",
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
