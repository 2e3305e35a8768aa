"""Rewrites a concatenation of a few single elements along the last dim as a select for each element.

    %2 = cuesta.cat(%0, %1) {dim = 1}     →     %c = cuesta.eq(0 1, 0)
      : 64x1, 64x1 → 64x2                       %2 = cuesta.where(%c, %0, %1)

In a concatenation a loop for each part writes the part with a stride, which vectorises to scatters. With a select the
loop over the parts is unrolled, no select is left, and vectors are interleaved in registers: a stack of two takes 0.27
of the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.shape import Cat
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of
from cuesta.passes.form_kernels.placement.concatenation import is_inner, operands_of
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()

#: The most parts: up to so many vectors are interleaved well.
_MOST = 4
#: A result of fewer bytes stays a concatenation, as the time does not matter.
_LITTLE = 4096


@register_pass("interleave-parts")
class InterleaveParts(Pass):
    """Rewrites stacks along the last dim as selects."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Cat.OPERATION_NAME: _interleave})
        erase_dead(module)


def _interleave(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,) = op.results
    sizes, dim = shape_of(result), Cat.dim.of(op)
    if is_inner(op) or dim != len(sizes) - 1 or byte_count(result) < _LITTLE:
        return None
    parts = operands_of(op)
    if len(parts) > _MOST or any(shape_of(part)[dim] != 1 for part in parts):
        return None
    place = _B.along(sizes, dim)
    chosen = parts[-1]
    for i in reversed(range(len(parts) - 1)):
        chosen = _B.where(_B.with_number("eq", place, i), parts[i], chosen)
    return [chosen]
