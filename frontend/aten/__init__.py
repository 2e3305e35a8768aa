"""ATen → cuesta, one module a family. Importing this package registers every rule."""

from cuesta.frontend.aten import (
    contraction,
    creation,
    indexing,
    normalisation,
    pointwise,
    reduction,
    shape,
)

__all__ = ["contraction", "creation", "indexing", "normalisation", "pointwise", "reduction", "shape"]
