"""Lowers attention that becomes a kernel of cuesta's own: to one op, on operands in their storage types."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.fields import int_array, int_attr
from cuesta.dialects.kernel_attention import BACKWARD, FORWARD, TILE
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.types import row_major, shape_of, spelling_of, tensor
from cuesta.errors import Unsupported
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers


@lowers("attention")
def lower_attention(b: LinalgBuilder, op: ir.Operation) -> None:
    _lower(b, op, FORWARD, len(op.operands) == 4)


@lowers("attention_backward")
def lower_attention_backward(b: LinalgBuilder, op: ir.Operation) -> None:
    _lower(b, op, BACKWARD, len(op.operands) == 7)


def _lower(b: LinalgBuilder, op: ir.Operation, kind: OpenOp, masked: bool) -> None:
    """Builds the op of a kernel. Raises Unsupported for attention without a tile, which no kernel was chosen for."""
    if TILE not in op.attributes:
        raise Unsupported(f"neither a library nor a kernel was chosen for attention, at {op.location}")
    strides = op.attributes.get("result_strides", None)
    if strides is None:
        strides = ir.ArrayAttr.get([int_array(row_major(shape_of(r))) for r in op.results])
    made = kind(
        [b.full_form(v) for v in op.operands],
        [tensor(shape_of(r), spelling_of(r)) for r in op.results],
        masked=int_attr(masked),
        result_strides=strides,
        **{name: op.attributes[name] for name in ("scale", "causal", TILE)},
    )
    b.full.update(zip(op.results, made.results, strict=True))
