"""Sums and masks of vectors of 16 f32: what attention's kernels are put together from.

A product here is a block of rows x vectors of sums that stay in registers; what it multiplies is given element by
element on the left, which is broadcast, and vector by vector on the right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, memref, vector
from cuesta.dialects.kernel_attention import LANES
from cuesta.dialects.types import index_value
from cuesta.lowering.linalg_to_loops.vector_loops import loop, vector_type

Value: TypeAlias = ir.Value


def splat(number: float) -> Value:
    """A vector of one number."""
    return arith.ConstantOp(vector_type(), ir.DenseElementsAttr.get_splat(vector_type(), f32_attr(number))).result


def f32_attr(number: float) -> ir.FloatAttr:
    return ir.FloatAttr.get_f32(number)


def spread(scalar: Value) -> Value:
    """A vector of one element."""
    return vector.broadcast(ir.VectorType.get([LANES], scalar.type), scalar)


def plus(index: Value, number: int) -> Value:
    return arith.addi(index, index_value(number)) if number else index


def scratch(*sizes: int) -> Value:
    """f32 on the stack, at the beginning of a line of the cache."""
    return memref.AllocaOp(ir.MemRefType.get(list(sizes), ir.F32Type.get()), [], [], alignment=64).result


def larger(a: Value, b: Value) -> Value:
    """The maximum, one instruction; b where one of them is NaN."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, a, b), a, b)


def sums(
    rows: int,
    width: int,
    depth: int | Value,
    left: Callable[[int, Value], Value],
    right: Callable[[int, Value], Value],
) -> list[list[Value]]:
    """rows x width vectors, each the sum over k of left(r, k), a number, times right(j, k), a vector."""

    def step(k: Value, *totals: Value) -> list[Value]:
        row = [right(j, k) for j in range(width)]
        found = []
        for r in range(rows):
            element = spread(left(r, k))
            found += [vector.fma(element, x, total) for x, total in zip(row, totals[r * width :], strict=False)]
        return found

    flat = loop(0, depth, 1, step, [splat(0.0)] * (rows * width))
    return [flat[r * width : (r + 1) * width] for r in range(rows)]


@dataclass(frozen=True)
class Mask:
    """Which lanes of a vector there are; None: all of them."""

    lanes: Value | None = None

    @staticmethod
    def of_first(count: int) -> Mask:
        """The first lanes."""
        if count >= LANES:
            return Mask()
        return Mask(vector.constant_mask(_bits(), [count]))

    @staticmethod
    def of_all(there: Value) -> Mask:
        """All lanes where a condition holds, none elsewhere."""
        return Mask(vector.broadcast(_bits(), there))

    @staticmethod
    def up_to(count: Value) -> Mask:
        """The lanes before a count."""
        return Mask(vector.create_mask(_bits(), [count]))

    def __and__(self, other: Mask) -> Mask:
        if self.lanes is None or other.lanes is None:
            return other if self.lanes is None else self
        return Mask(arith.andi(self.lanes, other.lanes))

    def load(self, buffer: Value, at: Sequence[Value], kind: ir.Type | None = None) -> Value:
        """16 elements that lie together; zeros where no lane is."""
        kind = kind or vector_type()
        if self.lanes is None:
            return vector.load(kind, buffer, list(at))
        element = ir.VectorType(kind).element_type
        zero = f32_attr(0.0) if isinstance(element, ir.F32Type) else ir.IntegerAttr.get(element, 0)
        nothing = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result
        return vector.maskedload(kind, buffer, list(at), self.lanes, nothing)

    def store(self, value: Value, buffer: Value, at: Sequence[Value]) -> None:
        if self.lanes is None:
            vector.store(value, buffer, list(at))
        else:
            vector.maskedstore(buffer, list(at), self.lanes, value)


def _bits() -> ir.Type:
    return ir.VectorType.get([LANES], ir.IntegerType.get_signless(1))
