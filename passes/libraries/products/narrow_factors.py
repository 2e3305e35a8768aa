"""Finds the factors of a product as they were before each was widened, such as q and k in `q.float() @ k.float().T`.

The products of narrow floats fit f32 exactly. So tensor cores, which multiply narrow floats and sum in f32, compute
what the wide product computes, at many times its speed.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.types import shape_of, spelling_of

#: Types of which a product is exact in f32.
_NARROW = ("bf16", "f16")


def narrow_factors(op: ir.Operation) -> list[ir.Value] | None:
    """The factors of a product in f32, in the one type that both were widened from; None for another product. Views
    between the conversion and the product are repeated before it."""
    found = [_source(x) for x in op.operands]
    kinds = {None if source is None else spelling_of(source) for source in found}
    if spelling_of(op.results[0]) != "f32" or len(kinds) > 1 or not kinds <= {*_NARROW}:
        return None
    return [_narrowed(x) for x in op.operands]


def _narrowed(x: ir.Value) -> ir.Value:
    """A value as it was before it was widened; the value itself if it was not."""
    if _source(x) is None:
        return x
    op = maker(x)
    assert op is not None
    (operand,) = op.operands
    if Convert.matches(op):
        return operand
    operand = _narrowed(operand)
    return repeat_op(op, [operand], types.tensor(shape_of(x), spelling_of(operand))).results[0]


def _source(x: ir.Value) -> ir.Value | None:
    """What a value was widened from, before any views of it; None if it was not."""
    op = maker(x)
    while op is not None and op.name in VIEWS and len(op.operands) == 1:
        op = maker(op.operands[0])
    if op is None or not Convert.matches(op) or spelling_of(op.results[0]) != "f32":
        return None
    (source,) = op.operands
    return source if spelling_of(source) in _NARROW else None
