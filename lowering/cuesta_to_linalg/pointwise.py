"""Lowers pointwise ops: one rule serves every row of the table.

%2 = cuesta.add(%0, %1)   →   %2 = linalg.generic ins(%0, %1) { arith.addf }
"""

from __future__ import annotations

import functools

from cuesta._mlir import arith, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.kernel_fields import IMPLIED
from cuesta.dialects.scalar import Scalar, Value, scalar_for
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.float8 import narrow_float8, widen_float8
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.runtime.dtypes import FLOAT8
from cuesta.sizes import Number


def _loops(op: ir.Operation) -> tuple[tuple[Number, ...], list[int]]:
    sizes = shape_of(op.results[0])
    return sizes, [d for d, s in enumerate(sizes) if s != 1]


def _lower_row(row: pointwise.Pointwise, b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, loops = _loops(op)
    operands = list(op.operands)
    params = pointwise.parameters(op)
    narrow = spelling_of(operands[0])
    wide = types.element(types.opmath(narrow)) if types.opmath(narrow) != narrow else None
    result = spelling_of(op.results[0])

    def body(s: Scalar, *xs: Value) -> Value:
        if wide is not None:
            xs = tuple(arith.extf(wide, x) for x in xs)
        value = row.scalar(s, *xs, **params)
        if wide is not None and value.type == wide and result == narrow:
            value = arith.truncf(types.element(narrow), value)
        return value

    accesses = [b.broadcast_access(x, sizes, loops) for x in operands]
    b.squeezed[op.results[0]] = b.generic(accesses, [sizes[d] for d in loops], result, body)


for _row in pointwise.ROWS:
    lowers(pointwise.OPS[_row.name])(functools.partial(_lower_row, _row))


@lowers(pointwise.Where)
def lower_where(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, loops = _loops(op)
    accesses = [b.broadcast_access(x, sizes, loops) for x in op.operands]

    def chosen(s: Scalar, condition: Value, x: Value, y: Value) -> Value:
        result = s.select(condition, x, y)
        if pointwise.Where.implied.is_on(op):
            IMPLIED.mark(result.owner)
        return result

    b.squeezed[op.results[0]] = b.generic(accesses, [sizes[d] for d in loops], spelling_of(op.results[0]), chosen)


@lowers(pointwise.Convert)
def lower_convert(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, loops = _loops(op)
    source, target = spelling_of(op.operands[0]), spelling_of(op.results[0])
    kind = types.element("f32" if target in FLOAT8 else target.replace("ui8", "i8"))
    access = b.broadcast_access(op.operands[0], sizes, loops)
    # ATen converts floats to uint8 by way of int64, to all other integers of fewer bits by way of int32.
    steps = [types.element("i64"), kind] if target == "ui8" and types.is_float(source) else [kind]

    def convert(s: Scalar, x: Value) -> Value:
        wide = widen_float8(s, x, source) if source in FLOAT8 else x
        result = functools.reduce(scalar_for(source).convert, steps, wide)
        return narrow_float8(s, result, target) if target in FLOAT8 else result

    b.squeezed[op.results[0]] = b.generic([access], [sizes[d] for d in loops], target, convert)
