"""Puts parts together in the order in which the concatenation is read.

    %2 = cuesta.cat(%0, %1) {dim = 0}                       %a = cuesta.permute(%0), %b = cuesta.permute(%1)
      : 1x8x4, 1x8x4 → 2x8x4                                  : 1x8x4 → 8x1x4
    %3 = cuesta.permute(%2) {dims = [1, 0, 2]} : 8x2x4  →   %3 = cuesta.cat(%a, %b) {dim = 1} : 8x2x4
    %4 = cuesta.reshape(%3) : 64                            %4 = cuesta.reshape(%3) : 64

The reshape would copy the whole, once for each shape that it is read in. The parts are written either way. Gradients of
queries, keys and values that are parts of one product are read like this. Dims of 1 may come between.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.layout import Layout, dense_strides
from cuesta.passes.analysis.match import only_has_ones
from cuesta.passes.form_kernels.placement.concatenation import operands_of
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("permute-parts")
class PermuteParts(Pass):
    """Permutes the parts of a concatenation instead of the whole, where the whole would be copied."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Permute.OPERATION_NAME: _permute})
        erase_dead(module)


def _permute(op: ir.Operation) -> Sequence[ir.Value] | None:
    whole = op.operands[0]
    joined = _without_dims_of_one(whole)
    cat = maker(joined, Cat)
    if cat is None or len(users(joined)) != 1 or not any(_copies(op, user) for user in users(op.results[0])):
        return None
    sizes, dims = list(shape_of(whole)), Permute.dims.of(op)
    dim = _dim_of(sizes, shape_of(joined), Cat.dim.of(cat))
    if dim is None:
        return None
    parts: list[ir.Value] = []
    for x in operands_of(cat):
        sizes[dim] = shape_of(x)[Cat.dim.of(cat)]
        parts.append(_B.permute(_B.reshape(x, sizes), dims))
    return [_B.cat(parts, dims.index(dim))]


def _without_dims_of_one(value: ir.Value) -> ir.Value:
    """What a value was before a reshape gave it dims of 1, where nothing else reads it."""
    view = maker(value)
    return view.operands[0] if view is not None and only_has_ones(view) and len(users(value)) == 1 else value


def _dim_of(sizes: Sequence[Number], old: Sequence[Number], dim: int) -> int | None:
    """The dim that `dim` of `old` is in `sizes`, which have other dims of 1; None where it is itself of 1."""
    if old[dim] == 1:
        return None
    at = sum(n != 1 for n in old[:dim])
    return [d for d, n in enumerate(sizes) if n != 1][at]


def _copies(permute: ir.Operation, user: ir.Operation) -> bool:
    """Whether a user of a permuted concatenation is a reshape that has to copy it."""
    if not Reshape.matches(user):
        return False
    sizes = shape_of(permute.operands[0])
    whole = Layout(0, 0, tuple(sizes), dense_strides(sizes, range(len(sizes))))
    return whole.permute(Permute.dims.of(permute)).reshape(shape_of(user.results[0])) is None
