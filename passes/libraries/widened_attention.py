"""Widens attention in bf16 to f32, which a kernel of ours computes; a part of call-libraries.

    %o, %lse = cuesta.attention(%q, %k, %v)      %1 = cuesta.convert(%q) : tensor<2x4x128x64xf32>, and k and v
      : tensor<2x4x128x64xbf16>              →   %2, %lse = cuesta.attention(%1, %k1, %v1)
                                                 %o = cuesta.convert(%2) : tensor<2x4x128x64xbf16>

The operands are widened once, each by the kernel that makes it where there is one. Only the results are rounded.

ATen's attention of bf16 calls MKL's product, which without AMX copies each block as f32. On an EPYC (Zen 5, one thread)
the kernel takes 0.22 to 0.42 of its time for five shapes of 64 to 2048 queries.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.passes.infra.graph_rewrite import replace

_B = GraphBuilder()


def widened(op: ir.Operation) -> ir.Operation:
    """The op of f32 that has taken the place of an attention op of bf16, or of one for its gradients; an op without
    bf16 itself."""
    if "bf16" not in map(spelling_of, op.operands):
        return op
    with ir.InsertionPoint(op), op.location:
        operands = [_B.convert(x, "f32") if spelling_of(x) == "bf16" else x for x in op.operands]
        kinds = [tensor(shape_of(x), "f32") for x in op.results]
        wide = ir.Operation.create(op.name, kinds, operands, dict(op.attributes.items()))
        replace(op, [_B.convert(new, spelling_of(old)) for new, old in zip(wide.results, op.results, strict=True)])
    return wide
