"""What a reduction in parts computes for itself, and the graph returns, is returned from there.

    %0 = cuesta.sub(%x, %y) : 2048x2048          %a = cuesta.sub(…) : 64x32x2048
    %a = cuesta.sub(…)      : 64x32x2048    →    %b = cuesta.sum(cuesta.abs(%a))
    %b = cuesta.sum(cuesta.abs(%a))              %0 = cuesta.reshape(%a) : 2048x2048
    return %0, %b                                return %0, %b

The shapes would keep the two computations in two kernels, which both read the operands: what a loss saves for its
gradient, and its sum. So it goes with an elementwise op between the two and what is returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.graph.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users

Value: TypeAlias = ir.Value
_B = GraphBuilder()


def return_parts(reduction: ir.Operation, made: Mapping[Value, Value]) -> None:
    """Has the graph return what `reduction` is given in parts, rather than the same computed once more.

    `made` has the parts of each value that elementwise ops compute for the reduction alone, or to be returned.
    """
    chain = {reduction, *(value.owner for value in made)}
    for value, parts in made.items():
        others = [user for user in users(value) if user not in chain]
        between = [user for user in others if user.name != "func.return"]
        if not all(_can_follow(user, reduction, made) for user in between):
            continue
        if len(between) < len(others) and not _updates(value):
            _return(value, parts)
        for user in between:
            _return(user.results[0], _in_parts(reduction, user, value, made))


def _can_follow(op: ir.Operation, reduction: ir.Operation, made: Mapping[Value, Value]) -> bool:
    """Whether an elementwise op of values in parts, arguments and single numbers computes what is only returned."""
    if op.name not in POINTWISE:
        return False
    (result,) = op.results
    if {user.name for user in users(result)} != {"func.return"} or _updates(result):
        return False
    return all(
        _is_there(x, reduction)
        if shape_of(x) == ()
        else x in made or (_is_argument(x) and shape_of(x) == shape_of(result))
        for x in op.operands
    )


def _is_argument(x: Value) -> bool:
    return isinstance(x.owner, ir.Block)


def _is_there(x: Value, reduction: ir.Operation) -> bool:
    """Whether a number is known before the reduction, or a constant, which can be."""
    return _is_argument(x) or x.owner.name == "cuesta.constant" or x.owner.is_before_in_block(reduction)


def _updates(value: Value) -> bool:
    """Whether a returned value is an argument's new one, which is computed where the old one lies."""
    end = _end(value.owner)
    attributes = end.parent.attributes
    mutates = ints(attributes["cuesta.mutates"]) if "cuesta.mutates" in attributes else []
    operands = list(end.operands)
    return value in operands[len(operands) - len(mutates) :]


def _in_parts(reduction: ir.Operation, op: ir.Operation, value: Value, made: Mapping[Value, Value]) -> Value:
    """What `op` computes, in the parts of `value`, one of its operands."""
    shape = shape_of(made[value])
    with op.location:
        for x in op.operands:
            if not _is_argument(x) and x.owner.name == "cuesta.constant":
                x.owner.move_before(reduction)
        operands = [x if shape_of(x) == () else made[x] if x in made else _B.reshape(x, shape) for x in op.operands]
        kind = types.tensor(shape, spelling_of(op.results[0]))
        clone = ir.Operation.create(op.name, results=[kind], operands=operands, attributes=dict(op.attributes.items()))
    return clone.results[0]


def _return(value: Value, parts: Value) -> None:
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
