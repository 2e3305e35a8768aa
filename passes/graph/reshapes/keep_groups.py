"""Computes what reads a norm over groups of channels with the norm's dims, so that it joins the norm's kernel.

    %1 = cuesta.mul(%0, %rstd) : 8x32x4x16x16xf32          %1 = cuesta.mul(%0, %rstd) : 8x32x4x16x16xf32
    %2 = cuesta.reshape(%1) : 8x128x16x16xf32         →    %2 = cuesta.silu(%1)
    %3 = cuesta.silu(%2)                                   %3 = cuesta.reshape(%2) : 8x128x16x16xf32

%rstd : tensor<8x32x1x1x1xf32>

No reshape above %1 would do: %rstd has a group's dim and not that of its channels, which the reshape merges. A kernel
of %1 would write what it has centred and scaled, in f32.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.types import shape_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped_operand
from cuesta.passes.graph.reshapes.split_readers import Merged, split_readers
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number


@register_pass("keep-groups")
class KeepGroups(Pass):
    """Computes what reads a norm over groups of channels with the norm's dims."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Reshape.OPERATION_NAME: _sink})
        erase_dead(module)


def _sink(op: ir.Operation) -> None:
    """Moves a reshape below what reads it, if it merges dims that an operand somewhere above has only in part."""
    (value,), (result,) = op.operands, op.results
    if not shape_of(value) or not _has_part_of_a_run(value, shape_of(result)):
        return
    view = Merged(value, tuple((d,) for d in range(len(shape_of(value))))).viewed(op)
    if view is not None:
        split_readers(result, view)


def _has_part_of_a_run(value: ir.Value, merged: Sequence[Number]) -> bool:
    """Whether pointwise ops compute a value, among others, from an operand that no reshape makes broadcast to the sizes
    `merged`."""
    shape = shape_of(value)
    pending, seen = [value], set[ir.Value]()
    while pending:
        x = pending.pop()
        op = maker(x)
        if x in seen or op is None or op.name not in POINTWISE:
            continue
        seen.add(x)
        if any(reshaped_operand(shape_of(y), shape, merged) is None for y in op.operands):
            return True
        pending += [y for y in op.operands if shape_of(y) == shape]
    return False
