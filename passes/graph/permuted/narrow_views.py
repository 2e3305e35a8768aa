"""Narrows a tensor before it is permuted, not after, and widens it after, not before.

    %1 = cuesta.permute(%x) {dims = [0, 2, 1]}        %1 = cuesta.convert(%x) : bf16
    %2 = cuesta.reshape(%1) : 512x24xf32          →   %2 = cuesta.permute(%1) {dims = [0, 2, 1]}
    %3 = cuesta.convert(%2) : 512x24xbf16             %3 = cuesta.reshape(%2) : 512x24xbf16

A norm that autocast computes in f32, for a product that reads it transposed, writes its rows in memory before they are
copied into the product's order. Narrow, they are half the bytes, three times over.

    %1 = cuesta.convert(%x) : 24x512xf32              %1 = cuesta.permute(%x) {dims = [1, 0]}
    %2 = cuesta.permute(%1) {dims = [1, 0]}      →    %2 = cuesta.convert(%1) : 512x24xf32

So is a product's result that a norm's gradient reads permuted and in f32: what reads it converts it. And so is a part
of a tensor, such as what the gradient of a concatenation has of each part, where nothing has the wide tensor in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.reduction import row_of
from cuesta.dialects.cuesta.shape import Permute, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.analysis.match import only_user
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import Rule, erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()


@register_pass("narrow-views")
class NarrowViews(Pass):
    """Moves narrowing conversions above permutes of what ops compute, and widening ones below permutes and slices."""

    def run(self, module: ir.Module) -> None:
        rules: dict[str, Rule] = {Permute.OPERATION_NAME: _widen, Slice.OPERATION_NAME: _widen_part}
        rewrite_ops(module, {**rules, Convert.OPERATION_NAME: _narrow})
        erase_dead(module)


def _narrow(op: ir.Operation) -> Sequence[ir.Value] | None:
    (x,), spelling = op.operands, spelling_of(op.results[0])
    if byte_size(spelling) >= byte_size(spelling_of(x)):
        return None
    views = _views(x)
    if not any(map(Permute.matches, views)):
        return None
    source = maker(views[0].operands[0])
    if source is None or source.name not in POINTWISE:
        return None
    made = _B.convert(views[0].operands[0], spelling)
    for view in views:
        made = repeat_op(view, [made], types.tensor(shape_of(view.results[0]), spelling)).results[0]
    return [made]


def _widen(op: ir.Operation) -> Sequence[ir.Value] | None:
    """What a permute gives, converted after it, where only ops of ours compute with it: each converts what it reads."""
    x = _widened(op)
    if x is None or not all(_computes(user) for user in users(op.results[0])):
        return None
    return [_B.convert(_B.permute(x, Permute.dims.of(op)), spelling_of(op.results[0]))]


def _widen_part(op: ir.Operation) -> Sequence[ir.Value] | None:
    """A part, converted after it is taken, where only ops of ours compute with the whole, or take parts of it."""
    x = _widened(op)
    if x is None or not all(_computes(user) or Slice.matches(user) for user in users(op.operands[0])):
        return None
    kind = types.tensor(shape_of(op.results[0]), spelling_of(x))
    part = Slice(x, Slice.starts.of(op), Slice.steps.of(op), result=kind).result
    return [_B.convert(part, spelling_of(op.results[0]))]


def _widened(view: ir.Operation) -> ir.Value | None:
    """The narrow tensor that is converted to what a view is of, if one is."""
    conversion = maker(view.operands[0], Convert)
    if conversion is None:
        return None
    (x,) = conversion.operands
    return x if byte_size(spelling_of(view.results[0])) > byte_size(spelling_of(x)) else None


def _computes(op: ir.Operation) -> bool:
    return op.name in POINTWISE or row_of(op) is not None


def _views(x: ir.Value) -> list[ir.Operation]:
    """The permutes and reshapes that lead to a value, the uppermost first, where nothing else reads what is between."""
    found: list[ir.Operation] = []
    while (view := maker(x)) is not None and (Permute.matches(view) or Reshape.matches(view)) and only_user(x):
        found.insert(0, view)
        (x,) = view.operands
    return found
