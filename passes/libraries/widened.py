"""Widens an op of narrow floats to f32; for passes that know that it is computed faster so.

    %o, %lse = cuesta.attention(%q, %k, %v)      %1 = cuesta.convert(%q) : tensor<2x4x128x64xf32>, and k and v
      : tensor<2x4x128x64xbf16>              →   %2, %lse = cuesta.attention(%1, %k1, %v1)
                                                 %o = cuesta.convert(%2) : tensor<2x4x128x64xbf16>

Each operand is widened by the kernel that makes it, where there is one. Only the results are rounded.
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
