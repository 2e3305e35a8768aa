"""Makes two reshapes of one that neither only parts dims nor only merges them: one that parts, one that merges.

    %1 = cuesta.where(%even, %low, %high) : 8x1024x2xui8           %2 = cuesta.reshape(%1) : 8x64x16x2xui8
    %2 = cuesta.reshape(%1) : 8x64x32xui8                     →    %3 = cuesta.reshape(%2) : 8x64x32xui8
    %3 = cuesta.convert(%2)                                        %4 = cuesta.convert(%3)

%low, %high : tensor<8x1024x1xui8>

So do pairs of values in a byte lie among groups that share a scale. hoist-reshapes moves the first reshape up and
keep-groups the second one down, and what is between them is one kernel. No single reshape could move: %low has a part
of what it merges.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.runs import dims_between, ends
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped_operand
from cuesta.passes.infra.graph_rewrite import rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("part-reshapes")
class PartReshapes(Pass):
    """Makes two reshapes of one between pointwise ops that parts some dims and merges others."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Reshape.OPERATION_NAME: _part})


def _part(op: ir.Operation) -> None:
    (value,), (result,) = op.operands, op.results
    old, new = shape_of(value), shape_of(result)
    parts = _common_parts(old, new)
    made = maker(value)
    if parts is None or made is None or made.name not in POINTWISE or len(users(value)) != 1:
        return
    if not all(reader.name in POINTWISE for reader in users(result)):
        return
    # Where nothing broadcasts along a part of a dim, the reshape moves up whole.
    if any(reshaped_operand(shape_of(x), old, new) is None for x in made.operands):
        with ir.InsertionPoint(op), op.location:
            op.operands[0] = _B.reshape(value, parts)


def _common_parts(old: Sequence[Number], new: Sequence[Number]) -> list[int] | None:
    """The dims into which both shapes can be parted; None where these are those of one of the shapes, where there are
    none, and where sizes are not numbers."""
    sizes = [[n for n in shape if isinstance(n, int)] for shape in (old, new)]
    if [len(own) for own in sizes] != [len(old), len(new)] or 0 in sizes[0]:
        return None
    parts = dims_between(ends(sizes[0]) | ends(sizes[1]) | {1})
    return None if parts in [[n for n in own if n != 1] for own in sizes] else parts
