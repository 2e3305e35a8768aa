"""Rows of rounding, tests, comparisons and bit operations."""

import math as pymath
from collections.abc import Callable
from typing import TypeAlias

import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


def _is_inf(s: Scalar, x: Value) -> Value:
    return s.compare("eq", s.abs(x), s.const(x, pymath.inf)) if isinstance(x.type, ir.FloatType) else s.const(i1(), 0)


def _is_nan(s: Scalar, x: Value) -> Value:
    return s.is_nan(x) if isinstance(x.type, ir.FloatType) else s.const(i1(), 0)


def _sign_bit(s: Scalar, x: Value) -> Value:
    if isinstance(x.type, ir.FloatType):  # gives the sign of zeros and NaN too
        x = math.copysign(s.const(x, 1), x)
    return s.compare("lt", x, s.const(x, 0))


def _beyond(s: Scalar, x: Value, count: Value, most: int) -> Value:
    return arith.ori(s.compare("lt", count, s.const(x, 0)), s.compare("gt", count, s.const(x, most)))


def _is_within(count: Value, width: int) -> bool:
    """Whether a count is known to be below a type's width, as where the halves of bytes are taken apart."""
    owner = count.owner
    known = not isinstance(owner, ir.Block) and owner.name == arith.ConstantOp.OPERATION_NAME
    return known and 0 <= ir.IntegerAttr(owner.attributes["value"]).value < width


def _shift_left(s: Scalar, x: Value, count: Value) -> Value:
    """0 for a count that is negative or not below the type's width."""
    shifted = arith.shli(x, count)
    return s.select(_beyond(s, x, count, x.type.width - 1), s.const(x, 0), shifted)


def _shift_right(s: Scalar, x: Value, count: Value) -> Value:
    """A count that is negative or not below the type's width shifts as far as possible, which leaves the sign."""
    if s.unsigned and _is_within(count, x.type.width):
        return arith.shrui(x, count)
    last = s.const(x, x.type.width - 1)
    beyond = _beyond(s, x, count, x.type.width - 1)
    if s.unsigned:
        return s.select(beyond, s.const(x, 0), arith.shrui(x, count))
    return arith.shrsi(x, s.select(beyond, last, count))


def i1() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def _rounding(op: Callable[[Value], Value]) -> Callable[..., Value]:
    return lambda s, x: op(x) if isinstance(x.type, ir.FloatType) else x


def _compare(predicate: str) -> Callable[..., Value]:
    return lambda s, x, y: s.compare(predicate, x, y)


ROWS: tuple[Pointwise, ...] = (
    Pointwise("floor", 1, _rounding(math.floor), torch.floor),
    Pointwise("ceil", 1, _rounding(math.ceil), torch.ceil),
    Pointwise("round", 1, _rounding(math.roundeven), torch.round),
    Pointwise("trunc", 1, _rounding(math.trunc), torch.trunc),
    Pointwise("isnan", 1, _is_nan, torch.isnan, "compare"),
    Pointwise("signbit", 1, _sign_bit, torch.signbit, "compare"),
    Pointwise("isinf", 1, _is_inf, torch.isinf, "compare"),
    Pointwise("eq", 2, _compare("eq"), torch.eq, "compare"),
    Pointwise("ne", 2, _compare("ne"), torch.ne, "compare"),
    Pointwise("lt", 2, _compare("lt"), torch.lt, "compare"),
    Pointwise("le", 2, _compare("le"), torch.le, "compare"),
    Pointwise("gt", 2, _compare("gt"), torch.gt, "compare"),
    Pointwise("ge", 2, _compare("ge"), torch.ge, "compare"),
    Pointwise("bitwise_and", 2, lambda s, x, y: arith.andi(x, y), torch.bitwise_and, "integer"),
    Pointwise("bitwise_or", 2, lambda s, x, y: arith.ori(x, y), torch.bitwise_or, "integer"),
    Pointwise("bitwise_xor", 2, lambda s, x, y: arith.xori(x, y), torch.bitwise_xor, "integer"),
    Pointwise("bitwise_not", 1, lambda s, x: arith.xori(x, s.const(x, -1)), torch.bitwise_not, "integer"),
    Pointwise("bitwise_left_shift", 2, _shift_left, torch.bitwise_left_shift, "integer", cost=3),
    Pointwise("bitwise_right_shift", 2, _shift_right, torch.bitwise_right_shift, "integer", cost=3),
    Pointwise("logical_and", 2, lambda s, x, y: arith.andi(x, y), torch.logical_and, "logical"),
    Pointwise("logical_or", 2, lambda s, x, y: arith.ori(x, y), torch.logical_or, "logical"),
    Pointwise("logical_xor", 2, lambda s, x, y: arith.xori(x, y), torch.logical_xor, "logical"),
    Pointwise("logical_not", 1, lambda s, x: arith.xori(x, s.const(x, -1)), torch.logical_not, "logical"),
)
