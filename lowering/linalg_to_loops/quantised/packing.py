"""Lays out rows of x in the order in which they are multiplied, at the beginning of a kernel.

Elements stay floats, or become words: integers of 16 bits. A word is an element divided by a step and rounded. The
step is a power of 2, one for each row of x and each part of the weight's row. It is chosen by the largest element of x
that this part is multiplied by, so that this element takes all 15 bits and the sign. A bf16 has 8 bits, so elements
down to 1/128 of the largest are exact. Smaller ones are off by up to half a step, 2^-16 of the largest. No step is
below 2^-126. The sum over a part is the sum of the products of integers, times the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, memref
from cuesta.dialects.types import index_value
from cuesta.lowering.linalg_to_loops.quantised.unpacking import Order, Unpacking
from cuesta.lowering.linalg_to_loops.vector_loops import LANES, loop, scratch, widened

Value: TypeAlias = ir.Value

#: The bits of an f32's fraction, its least and its largest exponent here, as stored, and that of 1.
_FRACTION, _LEAST, _INFINITE, _ONE = 23, 15, 255, 127
#: Bits of a word without the sign, and the largest one.
_BITS, _LARGEST = 15, 32767.0


@dataclass(frozen=True)
class Packed:
    """The rows of x in scratch memory: their elements, [parts of the weight's row, vectors of a part, rows, lanes] in
    one dim, and for words the steps, [parts, rows] in one dim."""

    values: Value
    steps: Value | None


@dataclass(frozen=True)
class Rows:
    """Rows of x that are laid out for the parts of a weight's row."""

    unpacking: Unpacking
    #: how many rows, and the bytes of a row of the weight
    count: int
    size: int
    #: `load(m, byte, half)`: the element of row m that a value of a byte of the weight's row is multiplied by
    load: Callable[[int, Value, int], Value]

    @property
    def of_part(self) -> int:
        """Packed elements of x that a part of a row is multiplied by."""
        return len(self.unpacking.orders) * self.count * self.unpacking.lanes

    def pack(self) -> Packed:
        """Lays out the rows at the insertion point, with zeros where a row ends before its last part."""
        whole, parts = self.size // self.unpacking.size, -(-self.size // self.unpacking.size)
        element = self.unpacking.element
        steps = scratch([parts * self.count]) if self.unpacking.kind == "i16" else None
        packed = Packed(scratch([parts * self.of_part], element), steps)
        loop(0, whole, 1, lambda part: self._pack_part(part, packed, False))
        loop(whole, parts, 1, lambda part: self._pack_part(part, packed, True))
        return packed

    def _pack_part(self, part: Value, packed: Packed, is_cut: bool) -> None:
        to = arith.muli(part, index_value(self.of_part))
        for m in range(self.count):
            by = None if packed.steps is None else self._step(m, part, packed.steps, is_cut)
            for j, order in enumerate(self.unpacking.orders):
                first = (j * self.count + m) * self.unpacking.lanes
                self._pack_vector(order, m, part, packed.values, arith.addi(to, index_value(first)), is_cut, by)

    def _pack_vector(
        self, order: Order, m: int, part: Value, values: Value, to: Value, is_cut: bool, by: Value | None
    ) -> None:
        """Lays out the elements of row m that a vector of a part of the weight's row is multiplied by, from `to` on;
        for words, times `by`."""
        together = self.unpacking.lanes // LANES

        def one(i: Value) -> None:
            for second, x in enumerate(self._numbers(order, m, part, i, is_cut)):
                lane = arith.addi(arith.muli(i, index_value(together)), index_value(second))
                memref.store(self._converted(x, by), values, [arith.addi(to, lane)])

        loop(0, LANES, 1, one)

    def _numbers(self, order: Order, m: int, part: Value, i: Value, is_cut: bool) -> list[Value]:
        """The elements of row m in lane i, as they are in memory; 0 behind a cut row."""
        start, found = arith.muli(part, index_value(self.unpacking.size)), []
        for second in range(self.unpacking.lanes // LANES):
            inside = arith.muli(i, index_value(order.step))
            at = arith.addi(start, arith.addi(inside, index_value(order.first + second * order.beside)))
            exists = arith.cmpi(arith.CmpIPredicate.ult, at, index_value(self.size)) if is_cut else None
            at = at if exists is None else arith.minui(at, index_value(self.size - 1))
            x = self.load(m, at, order.half)
            found.append(x if exists is None else arith.select(exists, x, _constant(x.type, 0.0)))
        return found

    def _converted(self, x: Value, by: Value | None) -> Value:
        """An element of x in the type that is packed."""
        element = self.unpacking.element
        if by is None:
            return x if x.type == element else arith.extf(element, x)
        steps = math.roundeven(arith.mulf(widened(x), by))
        kept = arith.maxnumf(arith.minnumf(steps, _constant(by.type, _LARGEST)), _constant(by.type, -_LARGEST))
        return arith.fptosi(element, kept)

    def _step(self, m: int, part: Value, steps: Value, is_cut: bool) -> Value:
        """Stores the step of row m in a part, and returns its inverse. The step is NaN if an element is not finite."""
        i32 = ir.IntegerType.get_signless(32)

        def largest(i: Value, most: Value) -> list[Value]:
            for order in self.unpacking.orders:
                for x in self._numbers(order, m, part, i, is_cut):
                    bits = arith.andi(arith.bitcast(i32, widened(x)), arith.constant(i32, 0x7FFFFFFF))
                    most = arith.maxui(most, bits)
            return [most]

        (most,) = loop(0, LANES, 1, largest, [arith.constant(i32, 0)])
        exponent = arith.maxui(arith.shrui(most, arith.constant(i32, _FRACTION)), arith.constant(i32, _LEAST))
        # The largest is below 2 ^ (exponent - _ONE + 1), which becomes 2 ^ _BITS.
        by = _power(arith.subi(arith.constant(i32, 2 * _ONE - 1 + _BITS), exponent))
        step = _power(arith.subi(exponent, arith.constant(i32, _BITS - 1)))
        infinite = arith.cmpi(arith.CmpIPredicate.eq, exponent, arith.constant(i32, _INFINITE))
        step = arith.select(infinite, _constant(step.type, float("nan")), step)
        memref.store(step, steps, [arith.addi(arith.muli(part, index_value(self.count)), index_value(m))])
        return by


def _power(exponent: Value) -> Value:
    """The f32 with a stored exponent and no fraction."""
    bits = arith.shli(exponent, arith.constant(exponent.type, _FRACTION))
    return arith.bitcast(ir.F32Type.get(), bits)


def _constant(kind: ir.Type, number: float) -> Value:
    return arith.ConstantOp(kind, ir.FloatAttr.get(kind, number)).result
