"""Reads the mask of a panel of queries, transposed like the scores: a row for each key, as f32 to add to the scores."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, memref, vector
from cuesta.dialects.kernel_attention import LANES
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.attention_to_loops.vectors import Mask, plus, splat, spread
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.lowering.linalg_to_loops.vector_loops import Extent, loop, scratch
from cuesta.sizes import Number

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class MaskPanel:
    """The part of mask[B, H, L, S] for the queries from `first` on. Dims of size 1 are broadcast."""

    mask: Value
    batch: Value
    head: Value
    first: Value
    queries: Number
    keys: Number
    panel: int
    #: memory for a block's mask, [keys, queries]; None if all queries have the same mask
    buffer: Value | None

    @staticmethod
    def memory(mask: Value, keys: int, panel: int) -> Value | None:
        """Scratch memory for the mask of a block of `keys` keys; None if all queries have the same mask."""
        return None if _sizes(mask)[2] == 1 else scratch([-(-keys // LANES) * LANES, panel])

    def prepare(self, block: Value, count: Value) -> Value:
        """Reads the mask of a block of keys into the buffer, if there is one. Returns whether any query sees a key."""
        if self.buffer is None:
            first = index_value(0)
            return any_of(count, lambda n: is_seen(self._element(first, arith.addi(block, n))))
        _, strides = memref_shape(self.mask.type)
        if strides[3] == 1 and _sizes(self.mask)[3] != 1:
            return self._turn(block, count)
        return self._read_each(block, count)

    def row(self, row: Value, key: Value) -> list[Value]:
        """The vectors to add to the scores of a key, which is row `row` of its block."""
        vectors = self.panel // LANES
        if self.buffer is None:
            return [spread(self._element(index_value(0), key))] * vectors
        return [Mask().load(self.buffer, [row, index_value(j * LANES)]) for j in range(vectors)]

    def _turn(self, block: Value, count: Value) -> Value:
        """Transposes squares of 16 queries by 16 keys into the buffer."""
        kind = ir.MemRefType(self.mask.type).element_type

        def square(m: Value, n: Value) -> Value:
            key = arith.addi(block, n)
            rest = Mask() if self.keys % LANES == 0 else Mask.up_to(arith.subi(index_value(self.keys), key))
            rows = []
            for i in range(LANES):
                query = plus(arith.addi(self.first, m), i)
                there = Mask()
                if self.queries % self.panel != 0:
                    there = Mask.of_all(arith.cmpi(arith.CmpIPredicate.ult, query, index_value(self.queries)))
                x = (rest & there).load(self.mask, self._at(query, key), ir.VectorType.get([LANES], kind))
                rows.append(to_add(x))
            for i, x in enumerate(transposed(rows)):
                Mask().store(x, self.buffer, [plus(n, i), m])
            seen = is_seen(functools.reduce(arith.maximumf, rows))
            return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, seen)

        return any_of(self.panel, lambda m: any_of(count, lambda n: square(m, n), LANES), LANES)

    def _read_each(self, block: Value, count: Value) -> Value:
        def element(m: Value, n: Value) -> Value:
            query = arith.minui(arith.addi(self.first, m), index_value(self.queries - 1))
            x = self._element(query, arith.addi(block, n))
            memref.store(x, self.buffer, [n, m])
            return is_seen(x)

        return any_of(count, lambda n: any_of(self.panel, lambda m: element(m, n)))

    def _element(self, query: Value, key: Value) -> Value:
        return to_add(memref.load(self.mask, self._at(query, key)))

    def _at(self, query: Value, key: Value) -> list[Value]:
        places = (self.batch, self.head, query, key)
        return [index_value(0) if n == 1 else at for n, at in zip(_sizes(self.mask), places, strict=True)]


def any_of(end: Extent, is_seen: Callable[[Value], Value], step: int = 1) -> Value:
    """Whether `is_seen(i)` holds for any i of a loop from 0 to `end`. The loop has no early exit, as `is_seen` may also
    store."""
    no = arith.constant(ir.IntegerType.get_signless(1), 0)
    (found,) = loop(0, end, step, lambda i, so_far: [arith.ori(so_far, is_seen(i))], [no])
    return found


def is_seen(x: Value) -> Value:
    """Whether a score is still seen once x, an element of the mask or a vector of them, is added: -inf hides it, NaN
    does not."""
    lowest = splat(-math.inf) if isinstance(x.type, ir.VectorType) else arith.constant(x.type, -math.inf)
    return arith.cmpf(arith.CmpFPredicate.UGT, x, lowest)


def _sizes(mask: Value) -> tuple[Number, ...]:
    return memref_shape(mask.type)[0]


def to_add(x: Value) -> Value:
    """Converts elements of a mask to numbers to add to scores. A boolean mask adds 0 if a key is seen, else -inf."""
    vector = isinstance(x.type, ir.VectorType)
    f32, element = ir.F32Type.get(), ir.VectorType(x.type).element_type if vector else x.type
    if element == f32:
        return x
    if isinstance(element, (ir.BF16Type, ir.F16Type)):
        return arith.extf(ir.VectorType.get([LANES], f32) if vector else f32, x)
    zero = ir.IntegerAttr.get(ir.IntegerType.get_signless(8), 0)
    nothing = arith.ConstantOp(x.type, ir.DenseElementsAttr.get_splat(x.type, zero) if vector else zero).result
    seen = arith.cmpi(arith.CmpIPredicate.ne, x, nothing)
    if vector:
        return arith.select(seen, splat(0.0), splat(-math.inf))
    return arith.select(seen, arith.constant(f32, 0.0), arith.constant(f32, -math.inf))
