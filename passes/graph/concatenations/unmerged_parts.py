"""Puts parts together before their dims are joined, where joining the dims of a part alone would copy it.

    %1 = cuesta.permute(%0) {dims = [0, 2, 1]}             %1 = cuesta.permute(%0) {dims = [0, 2, 1]}
      : 64x196x768 → 64x768x196                              : 64x196x768 → 64x768x196
    %2 = cuesta.reshape(%1) : 49152x196                 →  %2 = cuesta.cat(%1, cuesta.reshape(%z)) {dim = 2}
    %3 = cuesta.cat(%2, %z) {dim = 1} : 49152x256          %3 = cuesta.reshape(%2) : 49152x256

The reshape of the permuted part would copy it, and the concatenation would copy the copy. Padded factors of
products are made like this.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import number
from cuesta.passes.graph.reshapes.hoist_reshapes import reshaped
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("unmerged-parts")
class UnmergedParts(Pass):
    """Moves reshapes of permuted parts below the concatenation."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Cat.OPERATION_NAME: _unmerge})
        erase_dead(module)


def _unmerge(op: ir.Operation) -> Sequence[ir.Value] | None:
    dim, whole = Cat.dim.of(op), shape_of(op.results[0])
    behind = len(whole) - dim
    leading = next(filter(None, (_leading_before(x, behind) for x in op.operands)), None)
    if leading is None:
        return None
    parts = [_apart(x, [*leading, *shape_of(x)[dim:]]) for x in op.operands]
    return [_B.reshape(_B.cat(parts, len(leading)), whole)]


def _apart(x: ir.Value, sizes: Sequence[Number]) -> ir.Value:
    """A part with its dims apart. One number is written there, and not read from a view of it."""
    known = number(x)
    return reshaped(x, sizes) if known is None else _B.constant(known, spelling_of(x), sizes)


def _leading_before(x: ir.Value, behind: int) -> list[Number] | None:
    """The sizes of the dims of a permuted value that a reshape joins, and that lie before its last `behind` dims."""
    reshape = maker(x, Reshape)
    if reshape is None or maker(reshape.operands[0], Permute) is None:
        return None
    old, new = shape_of(reshape.operands[0]), shape_of(x)
    is_same = old[len(old) - behind :] == new[len(new) - behind :]
    return list(old[: len(old) - behind]) if is_same and len(old) > len(new) else None
