"""Verifies the tt ops that make, broadcast and move blocks."""

from __future__ import annotations

from math import prod

from cuesta._mlir import ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.rules import axis_problem, rule, wants
from cuesta.dialects.tt.types import block_type, element_of, is_block, shape_of


@rule(ops.MakeRange, 0)
def _make_range(op: ir.Operation) -> str | None:
    start, end = ops.MakeRange.start.of(op), ops.MakeRange.end.of(op)
    if start >= end:
        return f"from {start} to {end} is empty"
    return wants(op, block_type((end - start,), ir.IntegerType.get_signless(32)))


@rule(ops.Splat, 1)
def _splat(op: ir.Operation) -> str | None:
    if is_block(op.operands[0]):
        return f"copies a scalar, not {op.operands[0].type}"
    if not is_block(op.result):
        return f"makes a block, not {op.result.type}"
    return wants(op, block_type(shape_of(op.result), op.operands[0].type))


@rule(ops.Unsplat, 1)
def _unsplat(op: ir.Operation) -> str | None:
    if not is_block(op.operands[0]) or prod(shape_of(op.operands[0])) != 1:
        return f"takes a block of one element, not {op.operands[0].type}"
    return wants(op, element_of(op.operands[0]))


@rule(ops.ExpandDims, 1)
def _expand_dims(op: ir.Operation) -> str | None:
    if not is_block(op.operands[0]):
        return f"takes a block, not {op.operands[0].type}"
    shape, axis = list(shape_of(op.operands[0])), ops.ExpandDims.axis.of(op)
    wrong = axis_problem(axis, len(shape) + 1)
    shape.insert(axis, 1)
    return wrong or wants(op, block_type(shape, element_of(op.operands[0])))


@rule(ops.Broadcast, 1)
def _broadcast(op: ir.Operation) -> str | None:
    (x,) = op.operands
    old, new = shape_of(x), shape_of(op.result)
    if len(old) != len(new) or not old:
        return f"keeps the number of dims, but goes from {list(old)} to {list(new)}"
    for dim, (size, wanted) in enumerate(zip(old, new, strict=True)):
        if size not in (1, wanted):
            return f"only stretches dims of size 1, but dim {dim} goes from {size} to {wanted}"
    return wants(op, block_type(new, element_of(x)))


@rule(ops.Reshape, 1)
def _reshape(op: ir.Operation) -> str | None:
    old, new = shape_of(op.operands[0]), shape_of(op.result)
    if not old or not new or prod(old) != prod(new):
        return f"cannot reshape {list(old)} ({prod(old)} elements) to {list(new)} ({prod(new)})"
    return wants(op, block_type(new, element_of(op.operands[0])))


@rule(ops.Trans, 1)
def _trans(op: ir.Operation) -> str | None:
    shape, order = shape_of(op.operands[0]), ops.Trans.order.of(op)
    if sorted(order) != list(range(len(shape))):
        return f"order {order} is not a permutation of 0..{len(shape) - 1}"
    return wants(op, block_type([shape[d] for d in order], element_of(op.operands[0])))


@rule(ops.Split, 1, 2)
def _split(op: ir.Operation) -> str | None:
    shape = shape_of(op.operands[0])
    if not shape or shape[-1] != 2:
        return f"takes a block whose last dim is 2, not {op.operands[0].type}"
    kind = block_type(shape[:-1], element_of(op.operands[0]))
    return None if all(r.type == kind for r in op.results) else f"gives {kind} twice, not {op.results[0].type}"
