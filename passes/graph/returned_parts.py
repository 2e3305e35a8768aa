"""Makes a graph return the values that a split reduction computes in parts, reshaped, instead of computing them twice.

    %0 = cuesta.sub(%x, %y) : 2048x2048          %a = cuesta.sub(…) : 64x32x2048
    %a = cuesta.sub(…)      : 64x32x2048    →    %b = cuesta.sum(cuesta.abs(%a))
    %b = cuesta.sum(cuesta.abs(%a))              %0 = cuesta.reshape(%a) : 2048x2048
    return %0, %b                                return %0, %b

Otherwise the two shapes keep the two computations in two kernels that both read the operands: for example what a loss
saves for its gradient, and the loss's sum. An elementwise op between such a value and a returned one is repeated in
parts, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.shape import Constant
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.graph_function import MUTATES
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users

_B = GraphBuilder()
_RETURN = func.ReturnOp.OPERATION_NAME


def return_parts(reduction: ir.Operation, made: Mapping[ir.Value, ir.Value]) -> None:
    """Makes the graph return values that are computed in parts for `reduction`, rather than compute them once more.

    `made` maps each value that elementwise ops compute for the reduction to the same value in parts.
    """
    chain = {reduction, *(value.owner for value in made)}
    for value, parts in made.items():
        others = [user for user in users(value) if user not in chain]
        between = [user for user in others if user.name != _RETURN]
        if not all(_can_follow(user, reduction, made) for user in between):
            continue
        if len(between) < len(others) and not _updates(value):
            _return(value, parts)
        for user in between:
            _return(user.results[0], _in_parts(reduction, user, value, made))


def _can_follow(op: ir.Operation, reduction: ir.Operation, made: Mapping[ir.Value, ir.Value]) -> bool:
    """Whether `op` is elementwise, is only returned, and takes only values in parts, arguments and single numbers."""
    if op.name not in POINTWISE:
        return False
    (result,) = op.results
    if {user.name for user in users(result)} != {_RETURN} or _updates(result):
        return False
    return all(
        _is_there(x, reduction)
        if shape_of(x) == ()
        else x in made or (_is_argument(x) and shape_of(x) == shape_of(result))
        for x in op.operands
    )


def _is_argument(x: ir.Value) -> bool:
    return isinstance(x.owner, ir.Block)


def _is_there(x: ir.Value, reduction: ir.Operation) -> bool:
    """Whether a single number is computed before the reduction, or is a constant, which can be moved there."""
    return _is_argument(x) or Constant.matches(x.owner) or x.owner.is_before_in_block(reduction)


def _updates(value: ir.Value) -> bool:
    """Whether a returned value is the new value of an argument, which is written over the old one."""
    end = _end(value.owner)
    mutates = MUTATES.find(end.parent) or []
    operands = list(end.operands)
    return value in operands[len(operands) - len(mutates) :]


def _in_parts(
    reduction: ir.Operation, op: ir.Operation, value: ir.Value, made: Mapping[ir.Value, ir.Value]
) -> ir.Value:
    """Repeats `op` in the shape that `value`, one of its operands, has in parts."""
    shape = shape_of(made[value])
    with op.location:
        for x in op.operands:
            if not _is_argument(x) and Constant.matches(x.owner):
                x.owner.move_before(reduction)
        operands = [x if shape_of(x) == () else made[x] if x in made else _B.reshape(x, shape) for x in op.operands]
        kind = types.tensor(shape, spelling_of(op.results[0]))
        return repeat_op(op, operands, kind).results[0]


def _return(value: ir.Value, parts: ir.Value) -> None:
    """Returns `parts` in the place of `value`."""
    end = _end(value.owner)
    with ir.InsertionPoint(end), value.owner.location:
        whole = _B.reshape(parts, shape_of(value))
    for i, operand in enumerate(end.operands):
        if operand == value:
            end.operands[i] = whole


def _end(op: ir.Operation) -> ir.Operation:
    operations = op.parent.regions[0].blocks[0].operations
    return operations[len(operations) - 1].operation
