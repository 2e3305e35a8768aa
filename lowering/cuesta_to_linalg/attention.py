"""Lowers attention that becomes a kernel of cuesta's own: to one op, on operands in their storage types."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta.attention import Attention, AttentionBackward
from cuesta.dialects.kernel_attention import Backward, Forward, KernelAttention
from cuesta.dialects.types import row_major, shape_of, spelling_of, tensor
from cuesta.errors import Unsupported
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers


@lowers(Attention)
def lower_attention(b: LinalgBuilder, op: ir.Operation) -> None:
    _lower(b, op, Forward, len(op.operands) == 4)


@lowers(AttentionBackward)
def lower_attention_backward(b: LinalgBuilder, op: ir.Operation) -> None:
    _lower(b, op, Backward, len(op.operands) == 7)


def _lower(b: LinalgBuilder, op: ir.Operation, kind: type[KernelAttention], masked: bool) -> None:
    """Builds the op of a kernel. Raises Unsupported for attention without a tile, which no kernel was chosen for."""
    if not KernelAttention.tile.is_on(op):
        raise Unsupported(f"neither a library nor a kernel was chosen for attention, at {op.location}")
    made = kind.build(
        [b.full_form(v) for v in op.operands],
        [tensor(shape_of(r), spelling_of(r)) for r in op.results],
        scale=Attention.scale.of(op),
        causal=Attention.causal.of(op),
        masked=masked,
        tile=KernelAttention.tile.of(op),
        result_strides=KernelAttention.result_strides.find(op) or [row_major(shape_of(r)) for r in op.results],
    )
    b.full.update(zip(op.results, made.results, strict=True))
