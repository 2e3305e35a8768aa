"""Follows the last channels of images through ops that compute every channel for itself."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.contraction import Depthwise
from cuesta.dialects.cuesta.indexing import Index, Window
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Cat, Constant, Expand, Permute, Reshape, Slice
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.match import only_has_ones
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE

#: Dims of the channels of a sum over windows, and of its weight.
_DEPTHWISE = [3, 2]


def operand_channels(op: ir.Operation, dim: int) -> list[int | None] | None:
    """For each operand of an op the dim whose last channels are the last ones of dim `dim` of the op's result, or None
    if the operand has the same number for all channels, or only others. With copies of these channels behind them in
    the operands, the op with the same attributes makes copies of its own last channel. None if it does not."""
    count = shape_of(op.results[0])[dim] if len(op.results) == 1 else 1
    if count == 1:
        return None
    if op.name in POINTWISE or Expand.matches(op) or Constant.matches(op):
        return [_aligned(x, op.results[0], dim) for x in op.operands]
    if reduction.row_of(op) is not None:
        kept = _unreduced(op, dim)
        return None if kept is None else [kept]
    if Cat.matches(op):
        return [None if Cat.dim.of(op) == dim else dim, dim]
    if Slice.matches(op):
        return [dim] if _is_last(op, dim) else None
    if Permute.matches(op):
        return [Permute.dims.of(op)[dim]]
    if Reshape.matches(op):
        return [_between_ones(op, dim)] if only_has_ones(op) else None
    if Index.matches(op):
        found = _past_indices(op, dim)
        return None if found is None else [found, *[None for _ in list(op.operands)[1:]]]
    if Window.matches(op):
        return [dim] if _is_whole(op, dim) else None
    return list(_DEPTHWISE) if Depthwise.matches(op) and dim == _DEPTHWISE[0] else None


def _aligned(x: ir.Value, result: ir.Value, dim: int) -> int | None:
    """The dim of an operand that broadcasts to dim `dim` of a result, if it is not repeated along it."""
    own = dim - len(shape_of(result)) + len(shape_of(x))
    return own if own >= 0 and shape_of(x)[own] == shape_of(result)[dim] else None


def _between_ones(op: ir.Operation, dim: int) -> int:
    """The dim of a reshape's operand with the elements of `dim`, if it only adds or takes away dims of 1."""
    number = sum(n != 1 for n in shape_of(op.results[0])[:dim])
    return [d for d, n in enumerate(shape_of(op.operands[0])) if n != 1][number]


def _past_indices(op: ir.Operation, dim: int) -> int | None:
    """The dim of an indexed tensor that is dim `dim` of what is read; None if the position is computed."""
    dims, rank = Index.dims.of(op), len(shape_of(op.operands[1]))
    if dims != list(range(dims[0], dims[0] + len(dims))):
        return None
    if dim < dims[0]:
        return dim
    return dim - rank + len(dims) if dim >= dims[0] + rank else None


def _unreduced(op: ir.Operation, dim: int) -> int | None:
    """The dim of a reduction's operand that is dim `dim` of its result; None if it is reduced."""
    dims = Reduced.dims.of(op)
    if Reduced.keepdim.of(op):
        return None if dim in dims else dim
    return [d for d in range(len(shape_of(op.operands[0]))) if d not in dims][dim]


def _is_last(op: ir.Operation, dim: int) -> bool:
    """Whether a slice is the last part of its operand along a dim."""
    start, step = Slice.starts.of(op)[dim], Slice.steps.of(op)[dim]
    return step == 1 and start + shape_of(op.results[0])[dim] == shape_of(op.operands[0])[dim]


def _is_whole(op: ir.Operation, dim: int) -> bool:
    """Whether windows have all of a dim, as it is."""
    place = tuple(field.of(op)[dim] for field in (Window.starts, Window.steps, Window.divisors))
    return place == (0, 1, 1) and shape_of(op.operands[0])[dim] == shape_of(op.results[0])[dim]
