"""Compares positions with a number of each row in the positions' own type.

    %i = arith.extsi %position : tensor<4096xi32> to tensor<4096xi64>
    arith.cmpi eq, %i, tt.broadcast %target : tensor<4096xi64>

→   %t = arith.trunci (arith.minsi (arith.maxsi %target, -2147483648), 2147483647) : tensor<1xi64> to tensor<1xi32>
    arith.cmpi eq, %position, tt.broadcast %t : tensor<4096xi32>

Eager's positions are i64, which GPUs compare in three instructions. A position of a tensor that is small enough for i32
is neither of the two numbers at the ends, which stand for what is beyond them.
"""

from __future__ import annotations

import math

from cuesta._mlir import arith, ir
from cuesta.dialects import maker, tt
from cuesta.dialects.tt.repeated import number_of, unrepeated
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape

_LEAST, _LARGEST = -(1 << 31), (1 << 31) - 1
#: Predicates of signed numbers → the same with the operands exchanged.
_EXCHANGED = {"eq": "eq", "ne": "ne", "slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}


def compared(frame: Frame, predicate: arith.CmpIPredicate, x: Value, y: Value) -> Value | None:
    """A comparison of a block of positions with numbers that do not differ along the block; None for others."""
    for how, block, number in ((predicate.name, x, y), (_EXCHANGED.get(predicate.name), y, x)):
        position = _position(frame, block)
        if how in _EXCHANGED and position is not None and _is_same_along(position, number):
            return arith.cmpi(arith.CmpIPredicate[how], *common_shape([position, _clamped(unrepeated(number))]))
    return None


def _position(frame: Frame, x: Value) -> Value | None:
    """The positions that are widened to a block of i64; None for another block."""
    x = unrepeated(x)
    for build, neutral in ((arith.AddIOp, 0), (arith.MulIOp, 1)):  # as a range from 0 on is written
        op = maker(x, build)
        if op is not None:
            x = next((unrepeated(b) for a, b in (op.operands, [*op.operands][::-1]) if number_of(a) == neutral), x)
    widened = maker(x, arith.ExtSIOp)
    if widened is None:
        return None
    own = widened.operands[0]
    return own if own in frame.positions.values() and math.prod(shape_of(own)) > 1 else None


def _is_same_along(position: Value, x: Value) -> bool:
    """Whether a block is the same at all positions, and not known: LLVM narrows what is compared with a constant."""
    sizes = zip(shape_of(position), shape_of(unrepeated(x)), strict=True)
    return all(own == 1 or other == 1 for own, other in sizes) and number_of(x) is None


def _clamped(number: Value) -> Value:
    shape, kind = shape_of(number), element_of(number)
    least, largest = (tt.full(shape, kind, bound) for bound in (_LEAST, _LARGEST))
    narrow = tt.block_type(shape, ir.IntegerType.get_signless(32))
    return arith.trunci(narrow, arith.minsi(arith.maxsi(number, least), largest))
