"""Builds and reads the affine maps that cuesta's generics use."""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.upstream_fields import INDEXING_MAPS
from cuesta.sizes import Number


def projection(loops: int, dims: Sequence[int]) -> ir.AffineMapAttr:
    """(d0, …) -> (d[dims[0]], …)."""
    return ir.AffineMapAttr.get(ir.AffineMap.get(loops, 0, [ir.AffineExpr.get_dim(d) for d in dims]))


def dims_of(affine_map: ir.AffineMap) -> tuple[int, ...]:
    """The dims that are the results of a projection, in order."""
    return tuple(ir.AffineDimExpr(e).position for e in affine_map.results)


def operand_dims(generic: ir.Operation) -> list[tuple[int, ...]]:
    """For each operand of a generic, the loop that walks each of its dims."""
    return [dims_of(affine_map) for affine_map in INDEXING_MAPS.of(generic)]


def squeeze(sizes: Sequence[Number]) -> tuple[Number, ...]:
    """The sizes other than 1: inside generics tensors have no dims of size 1."""
    return tuple(s for s in sizes if s != 1)
