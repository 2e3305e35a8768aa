"""Folds views of views, views that change nothing, copies, conversions that undo each other, and known choices.

    %1 = cuesta.permute(%0) {dims = [1, 0]}
    %2 = cuesta.permute(%1) {dims = [1, 0]}      →   %0
    %4 = cuesta.reshape(cuesta.reshape(%3))      →   cuesta.reshape(%3)
    %6 = cuesta.copy(%5)                         →   %5
    %8 = cuesta.where(%true, %6, %7)             →   %6
    %9 = cuesta.slice(cuesta.cat(%6, %7))        →   cuesta.slice(%6)

A tensor of this level has no address, so a copy is the value itself. A call into ATen or a result
that needs certain strides in memory states them itself, and the value is copied for it there.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.cuesta.pointwise import Convert, Where
from cuesta.dialects.cuesta.shape import Cat, Copy, Expand, Permute, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import spelling_of
from cuesta.passes.analysis.match import number, only_user
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()


def _reshape(op: ir.Operation) -> Sequence[ir.Value] | None:
    x, (result,) = op.operands[0], op.results
    if x.type == result.type:
        return [x]
    inner = maker(x, Reshape)
    return [_B.reshape(inner.operands[0], types.shape_of(result))] if inner else None


def _permute(op: ir.Operation) -> Sequence[ir.Value] | None:
    dims = Permute.dims.of(op)
    if dims == list(range(len(dims))):
        return [op.operands[0]]
    inner = maker(op.operands[0], Permute)
    if inner is None:
        return None
    order = Permute.dims.of(inner)
    return [_B.permute(inner.operands[0], [order[d] for d in dims])]


def _expand(op: ir.Operation) -> Sequence[ir.Value] | None:
    return [op.operands[0]] if op.operands[0].type == op.results[0].type else None


def _slice(op: ir.Operation) -> Sequence[ir.Value] | None:
    """The slice itself where it takes all, or a slice of the one part of a concatenation that it takes from, such as a
    tensor before it was padded. What others read is concatenated in any case."""
    x, (result,) = op.operands[0], op.results
    starts, sizes = list(Slice.starts.of(op)), types.shape_of(result)
    while (cat := maker(x, Cat)) is not None and only_user(x) is not None:
        dim = Cat.dim.of(cat)
        first, second = cat.operands
        last, length = starts[dim] + (sizes[dim] - 1) * Slice.steps.of(op)[dim], types.shape_of(first)[dim]
        if not all(isinstance(n, int) for n in (starts[dim], last, length)) or starts[dim] < length <= last:
            break
        if starts[dim] < length:
            x = first
        else:
            x, starts[dim] = second, starts[dim] - length
    if x.type == result.type:
        return [x]
    return None if x == op.operands[0] else [Slice(x, starts, Slice.steps.of(op), result=result.type).result]


def _convert(op: ir.Operation) -> Sequence[ir.Value] | None:
    x, (result,) = op.operands[0], op.results
    if x.type == result.type:
        return [x]
    inner = maker(x, Convert)
    if inner is None:
        return None
    source, between, target = spelling_of(inner.operands[0]), spelling_of(x), spelling_of(result)
    # A pair of conversions loses nothing only if the first one widens.
    widening = {("bf16", "f32"), ("f16", "f32"), ("f32", "f64"), ("i32", "i64"), ("i1", "f32"), ("i1", "i64")}
    if (source, between) in widening and target in (source, "f32", "f64", "i64"):
        return [_B.convert(inner.operands[0], target)]
    return None


def _where(op: ir.Operation) -> Sequence[ir.Value] | None:
    """What a condition that is the same number everywhere chooses, such as the mask of an attention that has none."""
    condition, x, y = op.operands
    known = number(condition)
    if known is None:
        return None
    return [_B.expand(x if known else y, types.shape_of(op.results[0]))]


@register_pass("fold-views")
class FoldViews(Pass):
    """Folds views of views, identities, copies, conversions that undo each other, and choices by a constant."""

    def run(self, module: ir.Module) -> None:
        rules = {
            Reshape.OPERATION_NAME: _reshape,
            Permute.OPERATION_NAME: _permute,
            Expand.OPERATION_NAME: _expand,
            Convert.OPERATION_NAME: _convert,
            Slice.OPERATION_NAME: _slice,
            Where.OPERATION_NAME: _where,
            Copy.OPERATION_NAME: lambda op: [op.operands[0]],
        }
        rewrite_ops(module, rules)
        erase_dead(module)
