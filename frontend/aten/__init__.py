"""ATen → cuesta, one module a family. Importing this package registers every rule."""

from cuesta.frontend.aten import (
    attention,
    contraction,
    creation,
    indexing,
    normalisation,
    pointwise,
    reduction,
    shape,
)

__all__ = ["attention", "contraction", "creation", "indexing", "normalisation", "pointwise", "reduction", "shape"]
