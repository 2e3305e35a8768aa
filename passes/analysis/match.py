"""Reads a graph upwards from a value: its only user, its constant number, the value that it is a multiple of."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Constant, Reshape
from cuesta.dialects.cuesta.views import SELECTS_ELEMENTS
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import users
from cuesta.sizes import Number

_NARROW = frozenset({"bf16", "f16", "f32"})
_MUL, _DIV = pointwise.OPS["mul"], pointwise.OPS["div"]


def only_user(value: ir.Value) -> ir.Operation | None:
    """The one op that uses `value`, None where there are more uses or none."""
    found = users(value)
    return found[0] if len(found) == 1 else None


def made_for_one(value: ir.Value) -> ir.Operation | None:
    """The op that makes `value`, through reshapes; None if the value, or what is reshaped to it, has another user."""
    while only_user(value) is not None:
        op = maker(value)
        if op is None or not Reshape.matches(op):
            return op
        (value,) = op.operands
    return None


def wide(value: ir.Value) -> ir.Value:
    """`value` before conversions between bf16, f16 and f32.

    Conversions to and from f64 stay: a model that asks for f64 wants its arithmetic.
    """
    while (op := maker(value, Convert)) is not None:
        if not {spelling_of(value), spelling_of(op.operands[0])} <= _NARROW:
            break
        value = op.operands[0]
    return value


def without_ones(x: ir.Value) -> list[Number]:
    """The sizes of a value's dims, but for those of 1."""
    return [n for n in shape_of(x) if n != 1]


def only_has_ones(op: ir.Operation) -> bool:
    """Whether an op is a reshape that only adds or takes away dims of 1, through which fusion sees."""
    return Reshape.matches(op) and without_ones(op.operands[0]) == without_ones(op.results[0])


def unreshaped(value: ir.Value) -> ir.Value:
    """The value that `value` was reshaped from, above all reshapes."""
    while (op := maker(value, Reshape)) is not None:
        value = op.operands[0]
    return value


def number(value: ir.Value) -> float | None:
    """The number that every element of `value` is; None where `value` is no constant."""
    while (op := maker(value)) is not None:
        if Constant.matches(op):
            return float(Constant.value.of(op))
        if op.name not in SELECTS_ELEMENTS and not Convert.matches(op):
            break
        value = op.operands[0]
    return None


def multiple(value: ir.Value) -> tuple[float, ir.Value] | None:
    """(factor, x) where `value` is x times a constant, or divided by one, in x's shape; else None."""
    op = maker(value)
    divides = op is not None and _DIV.matches(op)
    if op is None or not (divides or _MUL.matches(op)):
        return None
    x, y = op.operands
    factor = number(y)
    if factor is None and not divides:
        x, factor = y, number(x)
    if factor is None or shape_of(x) != shape_of(value) or (divides and factor == 0):
        return None
    return (1 / factor if divides else factor), x
