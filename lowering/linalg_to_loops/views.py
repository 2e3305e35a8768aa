"""Finds the memory of a buffer through views of views, and reads views."""

from __future__ import annotations

from cuesta._mlir import ir, memref
from cuesta.dialects.types import index_value
from cuesta.dialects.upstream_fields import STATIC_OFFSETS, STATIC_SIZES

#: Ops that make a view of a buffer.
VIEWS = tuple(op.OPERATION_NAME for op in (memref.SubViewOp, memref.ReinterpretCastOp, memref.CastOp))


def memory_of(value: ir.Value) -> ir.Value:
    """The buffer that a view refers to: an argument (no two arguments overlap), or the kernel's own scratch memory."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def starts_of(view: ir.Operation) -> list[ir.Value]:
    """The offset of a subview along each dim of its source."""
    static = STATIC_OFFSETS.of(view)
    dynamic = iter(list(view.operands)[1:])
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    return [next(dynamic) if offset == marker else index_value(offset) for offset in static]


def kept_dims(view: ir.Operation) -> list[int]:
    """The dims of a subview's source that the subview keeps, in order; the dropped dims have size 1.

    If dims of size 1 are kept too, any choice of them gives the same elements; the last ones are taken.
    """
    sizes = STATIC_SIZES.of(view)
    wanted = list(view.results[0].type.shape)
    kept: list[int] = []
    for dim in reversed(range(len(sizes))):
        if wanted and sizes[dim] == wanted[-1]:
            wanted.pop()
            kept.append(dim)
    return kept[::-1]
