"""Builds the sums and masks of vectors of 16 f32 that attention's kernels consist of.

A product keeps a block of rows x vectors of sums in registers. The left factor is read element by element and
broadcast; the right factor is read vector by vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, vector
from cuesta.dialects.kernel_attention import LANES
from cuesta.dialects.types import index_value
from cuesta.lowering.linalg_to_loops.vector_loops import loop, vector_type

Value: TypeAlias = ir.Value


def splat(number: float) -> Value:
    """A constant vector with the same number in each lane."""
    return arith.ConstantOp(vector_type(), ir.DenseElementsAttr.get_splat(vector_type(), f32_attr(number))).result


def f32_attr(number: float) -> ir.FloatAttr:
    return ir.FloatAttr.get_f32(number)


def spread(scalar: Value) -> Value:
    """Broadcasts a scalar to a vector."""
    return vector.broadcast(ir.VectorType.get([LANES], scalar.type), scalar)


def plus(index: Value, number: int) -> Value:
    return arith.addi(index, index_value(number)) if number else index


def larger(a: Value, b: Value) -> Value:
    """The maximum, as one instruction; `b` if either operand is NaN."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, a, b), a, b)


def sums(
    rows: int,
    width: int,
    depth: int | Value,
    left: Callable[[int, Value], Value],
    right: Callable[[int, Value], Value],
) -> list[list[Value]]:
    """rows x width vectors; each is the sum over k of left(r, k), a scalar, times right(j, k), a vector."""

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
    """The lanes of a vector that are loaded and stored; None means all lanes."""

    lanes: Value | None = None

    @staticmethod
    def of_first(count: int) -> Mask:
        """The first `count` lanes; `count` is a constant."""
        if count >= LANES:
            return Mask()
        return Mask(vector.constant_mask(_bits(), [count]))

    @staticmethod
    def of_all(there: Value) -> Mask:
        """All lanes if a condition holds, else none."""
        return Mask(vector.broadcast(_bits(), there))

    @staticmethod
    def up_to(count: Value) -> Mask:
        """The first `count` lanes; `count` is an index value."""
        return Mask(vector.create_mask(_bits(), [count]))

    def __and__(self, other: Mask) -> Mask:
        if self.lanes is None or other.lanes is None:
            return other if self.lanes is None else self
        return Mask(arith.andi(self.lanes, other.lanes))

    def load(self, buffer: Value, at: Sequence[Value], kind: ir.Type | None = None) -> Value:
        """Loads 16 contiguous elements, with zeros in masked-off lanes."""
        kind = kind or vector_type()
        if self.lanes is None:
            return vector.load(kind, buffer, list(at))
        element = ir.VectorType(kind).element_type
        is_float = isinstance(element, (ir.F32Type, ir.BF16Type, ir.F16Type))
        zero = ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0)
        nothing = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result
        return vector.maskedload(kind, buffer, list(at), self.lanes, nothing)

    def store(self, value: Value, buffer: Value, at: Sequence[Value]) -> None:
        if self.lanes is None:
            vector.store(value, buffer, list(at))
        else:
            vector.maskedstore(buffer, list(at), self.lanes, value)


def _bits() -> ir.Type:
    return ir.VectorType.get([LANES], ir.IntegerType.get_signless(1))
