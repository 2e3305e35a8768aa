"""Puts parts together in the order in which the concatenation is read.

    %2 = cuesta.cat(%0, %1) {dim = 0}                       %a = cuesta.permute(%0), %b = cuesta.permute(%1)
      : 1x8x4, 1x8x4 → 2x8x4                                  : 1x8x4 → 8x1x4
    %3 = cuesta.permute(%2) {dims = [1, 0, 2]} : 8x2x4  →   %3 = cuesta.cat(%a, %b) {dim = 1} : 8x2x4
    %4 = cuesta.reshape(%3) : 64                            %4 = cuesta.reshape(%3) : 64

The reshape would copy the whole, once for each shape that it is read in. The parts are written either way. Gradients of
queries, keys and values that are parts of one product are read like this.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.layout import Layout, dense_strides
from cuesta.passes.form_kernels.placement.concatenation import operands_of
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()


@register_pass("permute-parts")
class PermuteParts(Pass):
    """Permutes the parts of a concatenation instead of the whole, where the whole would be copied."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Permute.OPERATION_NAME: _permute})
        erase_dead(module)


def _permute(op: ir.Operation) -> Sequence[ir.Value] | None:
    cat = maker(op.operands[0], Cat)
    if cat is None or len(users(cat.results[0])) != 1 or not any(_copies(op, user) for user in users(op.results[0])):
        return None
    dims = Permute.dims.of(op)
    return [_B.cat([_B.permute(x, dims) for x in operands_of(cat)], dims.index(Cat.dim.of(cat)))]


def _copies(permute: ir.Operation, user: ir.Operation) -> bool:
    """Whether a user of a permuted concatenation is a reshape that has to copy it."""
    if not Reshape.matches(user):
        return False
    sizes = shape_of(permute.operands[0])
    whole = Layout(0, 0, tuple(sizes), dense_strides(sizes, range(len(sizes))))
    return whole.permute(Permute.dims.of(permute)).reshape(shape_of(user.results[0])) is None
