"""Unpacks parts of a quantised row into vectors: bytes, or two values of 4 bits in each byte.

What is fastest leaves elements in another order than memory's, so each way says which elements its vectors hold. The
other factor is laid out in that order once, for all rows.

    pairs    64 bytes as 32 words: word >> 4 * j, looked up in a table of 32 bf16, are 32 values at once, exact
    tables   64 bytes as 16 integers: the same with a table of 16 f32
    words    64 bytes as 32 words: word >> 4 * j & 15 are 32 integers, to be multiplied by integers in pairs
    plain    16 bytes: the mask or the shift, and a conversion to f32

For other bytes, such as floats of 8 bits, the ops of the generic's body are repeated on vectors of 16.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, vector
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.types import element
from cuesta.lowering.linalg_to_loops.sums.terms import belongs_to
from cuesta.lowering.linalg_to_loops.vector_loops import LANES, vector_type
from cuesta.lowering.linalg_to_loops.x86 import looked_up

Value: TypeAlias = ir.Value
#: Loads bytes of a part of a row, from a place in it on: vector<NxI8>.
Load: TypeAlias = Callable[[int, int], Value]


@dataclass(frozen=True)
class Order:
    """The elements in a vector's lanes. Lane i, or both of pair i, come from byte `first + i * step` of the part of a
    row, the second of the pair `beside` bytes later. `half` says which of a byte's values it is."""

    first: int
    step: int = 1
    beside: int = 0
    half: int = 0


@dataclass(frozen=True)
class Unpacking:
    """A way to make vectors of some bytes of a row."""

    #: bytes that are unpacked at once, and values in a byte
    size: int
    in_a_byte: int
    #: the type of the values and of what they are multiplied by. Vectors are 16 f32, or 32 "bf16" or "i16" that are
    #: multiplied in pairs.
    kind: str
    #: what each vector holds
    orders: tuple[Order, ...]
    #: makes the vectors
    vectors: Callable[[Load], list[Value]]

    @property
    def elements(self) -> int:
        """Elements of a row that are unpacked at once."""
        return self.size * self.in_a_byte

    @property
    def lanes(self) -> int:
        """Elements of a vector."""
        return LANES if self.kind == "f32" else 2 * LANES

    @property
    def element(self) -> ir.Type:
        """The MLIR type of `kind`."""
        return element(self.kind)

    def groups_of_lanes(self, length: int) -> list[int] | None:
        """For groups of `length` elements, the group of each lane, counted from the first group that is unpacked; None
        where a lane's elements are of several groups, or where groups are cut."""
        if length % self.elements == 0:
            return [0] * LANES
        groups: list[set[int]] = [set() for _ in range(LANES)]
        for order in self.orders:
            for i, own in enumerate(groups):
                byte = order.first + i * order.step
                own |= {at * self.in_a_byte // length for at in (byte, byte + order.beside)}
        if self.elements % length or any(len(own) > 1 for own in groups):
            return None
        return [min(own) for own in groups]


#: Of 64 bytes as 32 words, the halves of each shifted to the lowest one by one.
_ORDERS_OF_WORDS = tuple(Order(j // 2, step=4, beside=2, half=j % 2) for j in range(4))


def pairs_of_halves() -> Unpacking:
    """Values from 0 to 15 as bf16, looked up by words."""

    def vectors(load: Load) -> list[Value]:
        words = ir.VectorType.get([2 * LANES], element("i16"))
        numbers = [ir.IntegerAttr.get(words.element_type, _upper_bits(i % 16)) for i in range(2 * LANES)]
        table = arith.ConstantOp(words, ir.DenseElementsAttr.get(numbers, words)).result
        found = [looked_up(table, places) for places in _shifted(vector.bitcast(words, load(0, 4 * LANES)), 4)]
        return [_pairs(each) for each in found]

    return Unpacking(4 * LANES, 2, "bf16", _ORDERS_OF_WORDS, vectors)


def tables_of_halves() -> Unpacking:
    """Values from 0 to 15 as f32, looked up by integers of 32 bits."""

    def vectors(load: Load) -> list[Value]:
        numbers = [ir.FloatAttr.get(ir.F32Type.get(), float(i)) for i in range(LANES)]
        table = arith.ConstantOp(vector_type(), ir.DenseElementsAttr.get(numbers, vector_type())).result
        integers = vector_type(ir.IntegerType.get_signless(32))
        return [looked_up(table, places) for places in _shifted(vector.bitcast(integers, load(0, 4 * LANES)), 8)]

    orders = tuple(Order(j // 2, step=4, half=j % 2) for j in range(8))
    return Unpacking(4 * LANES, 2, "f32", orders, vectors)


def words_of_halves() -> Unpacking:
    """Values from 0 to 15 as words."""

    def vectors(load: Load) -> list[Value]:
        words = ir.VectorType.get([2 * LANES], element("i16"))
        *lower, last = _shifted(vector.bitcast(words, load(0, 4 * LANES)), 4)
        return [*(arith.andi(each, _splat(words, 15)) for each in lower), last]

    return Unpacking(4 * LANES, 2, "i16", _ORDERS_OF_WORDS, vectors)


def plain_halves() -> Unpacking:
    """Values from 0 to 15 as f32, by any processor's instructions."""

    def vectors(load: Load) -> list[Value]:
        both = load(0, LANES)
        halves = (arith.andi(both, _splat(both.type, 15)), arith.shrui(both, _splat(both.type, 4)))
        return [arith.uitofp(vector_type(), half) for half in halves]

    return Unpacking(LANES, 2, "f32", (Order(0, half=0), Order(0, half=1)), vectors)


def whole_bytes(signed: bool, pairs: bool, count: int) -> Unpacking:
    """Integers of 8 bits as `count` vectors of f32, or of bf16, which holds them exactly."""
    lanes = 2 * LANES if pairs else LANES

    def vectors(load: Load) -> list[Value]:
        convert = arith.sitofp if signed else arith.uitofp
        wide = [convert(vector_type(), load(at, LANES)) for at in range(0, count * lanes, LANES)]
        return [_beside(x, y) for x, y in zip(wide[::2], wide[1::2], strict=True)] if pairs else wide

    orders = tuple(Order(j * lanes, beside=LANES if pairs else 0) for j in range(count))
    return Unpacking(count * lanes, 1, "bf16" if pairs else "f32", orders, vectors)


def computed_bytes(value: Value, count: int) -> Unpacking:
    """The f32 `value` that a generic's body computes from a byte, for `count` vectors of bytes."""

    def vectors(load: Load) -> list[Value]:
        return [_repeated(value, load(at, LANES)) for at in range(0, count * LANES, LANES)]

    return Unpacking(count * LANES, 1, "f32", tuple(Order(j * LANES) for j in range(count)), vectors)


def _repeated(value: Value, stored: Value) -> Value:
    """Repeats the ops that compute a generic's `value` from one byte, on a vector of `stored` bytes."""
    body = value.owner.operation.block
    found: dict[Value, Value] = {}

    def of(x: Value) -> Value:
        if x not in found:
            if not belongs_to(x, body):
                found[x] = vector.broadcast(vector_type(x.type), x)
            elif isinstance(x.owner, ir.Block):
                found[x] = stored
            else:
                found[x] = repeat_op(x.owner, [of(y) for y in x.owner.operands], vector_type(x.type)).results[0]
        return found[x]

    return of(value)


def _beside(x: Value, y: Value) -> Value:
    """The pairs of two vectors of f32 that bf16 holds exactly: their upper halves."""
    integers = vector_type(ir.IntegerType.get_signless(32))
    low, high = (arith.bitcast(integers, each) for each in (x, y))
    both = arith.ori(arith.shrui(low, _splat(integers, 16)), high)
    return _pairs(vector.bitcast(ir.VectorType.get([2 * LANES], element("i16")), both))


def _pairs(words: Value) -> Value:
    """Words as bf16. Such a bitcast is one that `expand-bf16` keeps."""
    return arith.bitcast(ir.VectorType.get([2 * LANES], ir.BF16Type.get()), words)


def _shifted(values: Value, count: int) -> Sequence[Value]:
    """Integers shifted right by 0, 4, 8, … bits."""
    return [arith.shrui(values, _splat(values.type, 4 * j)) if j else values for j in range(count)]


def _upper_bits(number: int) -> int:
    """The bits of a number as bf16."""
    bits: int = struct.unpack("<I", struct.pack("<f", float(number)))[0]
    return bits >> 16


def _splat(kind: ir.Type, number: int) -> Value:
    element = ir.IntegerAttr.get(ir.VectorType(kind).element_type, number)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, element)).result
