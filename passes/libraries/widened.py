"""Widens an op of narrow floats to f32, for passes that know that the op is faster in f32.

    %y = cuesta.mm(%x, %w)                 %1, %2 = cuesta.convert(%x), cuesta.convert(%w)
      : tensor<256x768xbf16>          →    %3 = cuesta.mm(%1, %2) : tensor<256x768xf32>
                                           %y = cuesta.convert(%3) : tensor<256x768xbf16>

Each operand is widened by the kernel that makes it, where there is one.
"""

from __future__ import annotations

from collections.abc import Collection

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.passes.infra.graph_rewrite import replace

_B = GraphBuilder()


def widened(op: ir.Operation, narrow: Collection[str]) -> ir.Operation:
    """The op that has taken the place of `op`: with operands and results of f32 instead of the floats `narrow`. The op
    itself if no operand is one of these."""
    if not any(spelling_of(x) in narrow for x in op.operands):
        return op
    with ir.InsertionPoint(op), op.location:
        operands = [_B.convert(x, "f32") if spelling_of(x) in narrow else x for x in op.operands]
        kinds = [tensor(shape_of(x), "f32") if spelling_of(x) in narrow else x.type for x in op.results]
        wide = ir.Operation.create(op.name, kinds, operands, dict(op.attributes.items()))
        replace(op, [_B.convert(new, spelling_of(old)) for new, old in zip(wide.results, op.results, strict=True)])
    return wide
