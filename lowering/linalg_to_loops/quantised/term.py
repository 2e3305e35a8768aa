"""Recognises what a generic adds up in a product by a quantised weight: values of bytes, each times an element of x."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir
from cuesta.dialects import maker
from cuesta.lowering.linalg_to_loops.sums.terms import is_inside, term_of

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class ByteValue:
    """A float that a generic's body makes of a byte."""

    #: the number of the operand that has the byte
    operand: int
    #: 0 or 1 for the lower or upper 4 bits of the byte, -1 for the whole byte
    half: int = -1
    #: whether a whole byte is a signed integer
    signed: bool = False
    #: the f32 that the body computes from a whole byte, if it is no conversion of an integer
    computed: Value | None = None


@dataclass(frozen=True)
class QuantisedTerm:
    """What a generic adds up: scale[g] * (x[0][m, g, k] * value 0 of byte [g, k] + x[1][m, g, k] * value 1 of it). All
    are numbers of operands."""

    weight: int
    #: by which value of a byte they are multiplied; one for bytes that are values themselves
    x: tuple[int, ...]
    #: how a byte becomes the factor of the last of `x`
    value: ByteValue
    scale: int | None

    @staticmethod
    def of(op: ir.Operation) -> QuantisedTerm | None:
        """The term of a generic; None for any other generic."""
        term = term_of(op)
        if term is None:
            return None
        products, scale = _products(op, term), None
        for x, y in _orders(_inner(op, term, arith.MulFOp)) if products is None else []:
            scale = _operand(op, y)
            if scale is not None and (products := _products(op, x)) is not None:
                break
        if products is None:
            return None
        halves = {value.half: (x, value) for x, value in products}
        weights = {value.operand for _, value in products}
        if len(halves) < len(products) or [*sorted(halves)] not in ([-1], [0, 1]) or len(weights) > 1:
            return None
        x = tuple(halves[half][0] for half in sorted(halves))
        return QuantisedTerm(weights.pop(), x, halves[max(halves)][1], scale)


def _products(op: ir.Operation, term: Value) -> list[tuple[int, ByteValue]] | None:
    """The products that a value of a generic's body is the sum of: the operand x, and what it is multiplied by. None
    for any other value."""
    if (both := _inner(op, term, arith.AddFOp)) is not None:
        left, right = (_products(op, x) for x in both)
        return None if left is None or right is None else left + right
    for x, y in _orders(_inner(op, term, arith.MulFOp)):
        number, value = _operand(op, x), _value(op, y)
        if number is not None and value is not None:
            return [(number, value)]
    return None


def _value(op: ir.Operation, x: Value) -> ByteValue | None:
    """Which value of which operand's byte a float is; None for any other value."""
    for convert, signed in ((arith.SIToFPOp, True), (arith.UIToFPOp, False)):
        if (converted := _inner(op, x, convert)) is not None:
            (y,) = converted
            if (whole := _operand(op, y)) is not None:
                return ByteValue(whole, signed=signed)
            for half, (cut, by) in enumerate(((arith.AndIOp, 15), (arith.ShRUIOp, 4))):
                of_byte = _inner(op, y, cut)
                if (
                    of_byte is not None
                    and _integer(of_byte[1]) == by
                    and (byte := _operand(op, of_byte[0])) is not None
                ):
                    return ByteValue(byte, half)
            return None
    return _computed(op, x)


def _computed(op: ir.Operation, x: Value) -> ByteValue | None:
    """A float that is computed from one operand's byte alone, such as a float of 8 bits."""
    block = op.regions[0].blocks[0]
    read, pending = set(), [x]
    while pending:
        value = pending.pop()
        if isinstance(value.owner, ir.Block) and value.owner == block:
            read.add(ir.BlockArgument(value).arg_number)
        elif is_inside(value, op):
            pending += value.owner.operands
    if len(read) != 1 or not is_inside(x, op) or str(x.type) != "f32":
        return None
    (byte,) = read
    return ByteValue(byte, computed=x) if str(block.arguments[byte].type) == "i8" else None


def _integer(x: Value) -> int | None:
    constant = maker(x, arith.ConstantOp)
    return None if constant is None else ir.IntegerAttr(constant.attributes["value"]).value


def _operand(op: ir.Operation, x: Value) -> int | None:
    """The number of the operand whose element a value is, or is widened from."""
    if (widened := _inner(op, x, arith.ExtFOp)) is not None:
        (x,) = widened
    block = op.regions[0].blocks[0]
    return ir.BlockArgument(x).arg_number if isinstance(x.owner, ir.Block) and x.owner == block else None


def _inner(op: ir.Operation, x: Value, kind: type[ir.OpView]) -> list[Value] | None:
    """The operands of the op of this kind that makes a value in a generic's body; None if another one does."""
    made = maker(x, kind) if is_inside(x, op) else None
    return None if made is None else list(made.operands)


def _orders(both: list[Value] | None) -> list[list[Value]]:
    return [] if both is None else [both, both[::-1]]
