"""Makes a concatenation of a few single elements along the last dim a choice for each element.

    %2 = cuesta.cat(%0, %1) {dim = 1}     →     %c = cuesta.eq(0 1, 0)
      : 64x1, 64x1 → 64x2                       %2 = cuesta.where(%c, %0, %1)

Its parts would each be written in steps, by loops of their own, that vectors scatter. As a choice the loop over the
parts is unrolled, nothing is chosen any more, and vectors are interleaved in registers: a stack of two takes 0.27 of
the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of
from cuesta.passes.form_kernels.placement.concatenation import is_inner, operands_of
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value
_B = GraphBuilder()

#: Parts, at most: as many vectors are interleaved well.
_MOST = 4
#: Bytes of a result below which it does not matter.
_LITTLE = 4096


@register_pass("interleave-parts")
class InterleaveParts(Pass):
    """Makes stacks along the last dim choices."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {"cuesta.cat": _interleave})
        erase_dead(module)


def _interleave(op: ir.Operation) -> Sequence[Value] | None:
    (result,) = op.results
    sizes, dim = shape_of(result), op.attributes["dim"].value
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
