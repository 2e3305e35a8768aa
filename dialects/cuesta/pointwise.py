"""Defines pointwise ops: one for each row of the table in `pointwise_rows`; `where` and `convert` have own classes.

Operands broadcast as in torch (trailing dims are aligned, dims of size 1 broadcast), and all have the type that the op
computes in; `cuesta.convert` converts them. Ops on bf16 and f16 compute in f32.
"""

from typing import Annotated

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.cuesta.pointwise_rows import ROWS as ROWS
from cuesta.dialects.cuesta.pointwise_rows import Pointwise as Pointwise
from cuesta.dialects.fields import OPTIONAL, Float, Marker
from cuesta.sizes import Number

BY_NAME: dict[str, Pointwise] = {row.name: row for row in ROWS}


class Where(Operation, name="where", traits=[ext.Pure]):
    """`condition ? x : y`, all three broadcast; condition is i1. With `implied`, the reader computes the same from x: a
    lowering need not choose, and may learn from the condition which elements count."""

    condition: Operand
    x: Operand
    y: Operand
    implied: Annotated[Marker, OPTIONAL]
    result: Result


class Convert(Operation, name="convert", traits=[ext.Pure]):
    """The operand in the result's element type, as `Tensor.to(dtype)` converts."""

    x: Operand
    result: Result


@reference(Where)
def _where(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    condition, x, y = operands
    return torch.where(condition, x, y)


@reference(Convert)
def _convert(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return operands[0].to(types.torch_dtype(types.spelling_of(op.results[0])))


def row_of(op: ir.Operation) -> Pointwise | None:
    """The row of a pointwise op; None for other ops, and for `where` and `convert`, which have no row."""
    return _BY_OP_NAME.get(op.name)


def parameters(op: ir.Operation) -> dict[str, float]:
    """The float attributes of a pointwise op."""
    return {field.name: field.of(op) for field in OPS[_BY_OP_NAME[op.name].name].FIELDS}


def broadcast_shape(*shapes: tuple[Number, ...]) -> tuple[Number, ...] | None:
    """The shape that `shapes` broadcast to, or None if they do not."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for sizes in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes], strict=True):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            return None
        result.append(stretched.pop() if stretched else 1)
    return tuple(result)


def _verify_broadcast(op: ir.Operation) -> str | None:
    shapes = [types.shape_of(v) for v in op.operands]
    expected = broadcast_shape(*shapes)
    actual = types.shape_of(op.results[0])
    if expected is None:
        return f"operand shapes {shapes} do not broadcast"
    if expected != actual:
        return f"operands broadcast to {list(expected)}, but the result is {list(actual)}"
    return None


def _verify_row(op: ir.Operation) -> str | None:
    row = _BY_OP_NAME[op.name]
    taken = [types.spelling_of(v) for v in op.operands]
    if len(set(taken)) > 1:
        return f"operands have the element types {', '.join(taken)}; cuesta.convert makes them one"
    if not row.takes(taken[0]):
        return f"computes on {row.promotion}s, not on {taken[0]}"
    expected, actual = "i1" if row.promotion == "compare" else taken[0], types.spelling_of(op.results[0])
    if expected != actual:
        return f"computes {expected} from {taken[0]}, but the result is {actual}"
    return _verify_broadcast(op)


def _verify_where(op: ir.Operation) -> str | None:
    condition, *chosen = (types.spelling_of(v) for v in (*op.operands, op.results[0]))
    if condition != "i1" or len(set(chosen)) > 1:
        return f"takes i1 and two of the result's element type, got {condition}, {chosen[0]}, {chosen[1]} → {chosen[2]}"
    return _verify_broadcast(op)


def _define(row: Pointwise) -> type[Operation]:
    operands = dict.fromkeys("xyzw"[: row.arity], Operand)
    annotations = operands | dict.fromkeys(row.params, Float) | {"result": Result}
    namespace = {"__annotations__": annotations, "__doc__": f"`{row.name}`, element by element."}
    kind = type(row.name, (Operation,), namespace, name=row.name, traits=[ext.Pure])
    verifier(kind)(_verify_row)
    reference(kind)(lambda op, xs: row.reference(*xs, *parameters(op).values()))
    return kind


#: The class of each row's op, by the row's name.
OPS: dict[str, type[Operation]] = {row.name: _define(row) for row in ROWS}
_BY_OP_NAME = {OPS[row.name].OPERATION_NAME: row for row in ROWS}
verifier(Where)(_verify_where)
verifier(Convert)(_verify_broadcast)
