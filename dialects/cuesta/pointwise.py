"""Defines pointwise ops: one for each row of the table in `pointwise_rows`; `where` and `convert` have own classes.

Operands broadcast as in torch (trailing dims are aligned, dims of size 1 broadcast), and all have the type that the op
computes in; `cuesta.convert` converts them. Ops on bf16 and f16 compute in f32.
"""

from typing import Any

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS, Operation
from cuesta.dialects.cuesta.pointwise_rows import ROWS as ROWS
from cuesta.dialects.cuesta.pointwise_rows import Pointwise as Pointwise
from cuesta.sizes import Number

BY_NAME: dict[str, Pointwise] = {row.name: row for row in ROWS}


class Where(Operation, name="where", traits=[ext.Pure]):
    """`condition ? x : y`, all three broadcast; condition is i1."""

    condition: ext.Operand[Any]
    x: ext.Operand[Any]
    y: ext.Operand[Any]
    result: ext.Result[Any]


class Convert(Operation, name="convert", traits=[ext.Pure]):
    """The operand in the result's element type, as `Tensor.to(dtype)` converts."""

    x: ext.Operand[Any]
    result: ext.Result[Any]


REFERENCES["cuesta.where"] = lambda op, operands: torch.where(*operands)
REFERENCES["cuesta.convert"] = lambda op, operands: operands[0].to(types.torch_dtype(types.spelling_of(op.results[0])))


def parameters(op: ir.Operation) -> dict[str, float]:
    """The float attributes of a pointwise op."""
    row = BY_NAME[op.name.removeprefix("cuesta.")]
    return {name: op.attributes[name].value for name in row.params}


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
    row = BY_NAME[op.name.removeprefix("cuesta.")]
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


def _define(row: Pointwise) -> type:
    operands = dict.fromkeys("xyzw"[: row.arity], ext.Operand[Any])
    annotations = operands | dict.fromkeys(row.params, ir.FloatAttr) | {"result": ext.Result[Any]}
    namespace = {"__annotations__": annotations, "__doc__": f"`{row.name}`, element by element."}
    cls = type(row.name, (Operation,), namespace, name=row.name, traits=[ext.Pure])
    VERIFIERS[f"cuesta.{row.name}"] = _verify_row
    REFERENCES[f"cuesta.{row.name}"] = lambda op, xs: row.reference(*xs, *parameters(op).values())
    return cls


OPS: dict[str, type] = {row.name: _define(row) for row in ROWS}
VERIFIERS["cuesta.where"] = _verify_where
VERIFIERS["cuesta.convert"] = _verify_broadcast
