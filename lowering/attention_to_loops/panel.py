"""Builds the parts that attention and its gradients share: a panel of queries against blocks of keys.

The lanes of a vector are queries: a row of scores belongs to a key, and maxima, sums and the logsumexp are vectors too,
so nothing is reduced across lanes. Queries are transposed once per panel; keys and values are read in place.

    scores[n, m] = sum over d of k[n, d] * queries[d, m]        4 keys x 4 vectors of queries in registers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, memref, scf, vector
from cuesta.dialects.kernel_attention import LANES, AttentionTile, KernelAttention
from cuesta.dialects.kernel_module import count_tiles
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.attention_to_loops.masks import MaskPanel
from cuesta.lowering.attention_to_loops.vectors import (
    Mask,
    plus,
    splat,
    spread,
    sums,
)
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.lowering.linalg_to_loops.vector_loops import Extent, blocks, loop, where
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
Rows: TypeAlias = list[list[Value]]
FourSizes: TypeAlias = tuple[Number, int, Number, int]

MINUS_INFINITY = -math.inf


@dataclass(frozen=True)
class Attention:
    """An attention op: q [B, H, L, D], k [B, Hkv, S, D], v [B, Hkv, S, Dv], and its tile. B, L and S may be
    symbolic."""

    q: Value
    k: Value
    v: Value
    mask: Value | None
    scale: float
    causal: bool
    tile: AttentionTile

    @staticmethod
    def of(op: ir.Operation, first: int, mask: int) -> Attention:
        """Reads an op. Its q is operand number `first`; its mask, if it has one, is operand number `mask`."""
        q, k, v = list(op.operands)[first : first + 3]
        given = op.operands[mask] if KernelAttention.masked.of(op) else None
        scale, causal = KernelAttention.scale.of(op), KernelAttention.causal.of(op)
        return Attention(q, k, v, given, scale, causal, AttentionTile.parse(KernelAttention.tile.of(op)))

    @property
    def sizes(self) -> FourSizes:
        """B, H, L and D."""
        return four_sizes(self.q)

    @property
    def kv_heads(self) -> int:
        return four_sizes(self.k)[1]

    @property
    def group(self) -> int:
        """The count of heads of q that share a head of k and v."""
        return self.sizes[1] // self.kv_heads

    @property
    def keys(self) -> Number:
        return four_sizes(self.k)[2]

    @property
    def width(self) -> int:
        """Dv, the elements of a row of v."""
        return four_sizes(self.v)[3]

    @property
    def panels(self) -> Number:
        return (self.sizes[2] + self.tile.queries - 1) // self.tile.queries

    @property
    def vectors(self) -> int:
        """The count of vectors that hold a panel's queries."""
        return self.tile.queries // LANES

    @property
    def work(self) -> Number:
        """The count of scalar operations of the forward op."""
        batch, heads, queries, depth = self.sizes
        return batch * queries * self.keys * (heads * (depth + self.width + LANES) // (2 if self.causal else 1))

    def tiles(self, counts: Sequence[Number], work: Number) -> scf.ForallOp:
        """Loops over tiles, `counts` in each dim. `work` is the count of scalar operations of all tiles together."""
        made = scf.ForallOp([0] * len(counts), [extent(n) for n in counts], [1] * len(counts), [])
        count_tiles(made, counts, work)
        return made


def four_sizes(value: Value) -> FourSizes:
    """The sizes of q, k, v or a result of the same rank."""
    (batch, heads, rows, depth), _ = memref_shape(value.type)
    assert isinstance(heads, int) and isinstance(depth, int)
    return batch, heads, rows, depth


def extent(number: Number) -> Extent:
    """A size as the bound of a loop."""
    return number if isinstance(number, int) else index_value(number)


@dataclass(frozen=True)
class Panel:
    """A panel: the queries of one head, from `first` on."""

    op: Attention
    batch: Value
    head: Value
    kv_head: Value
    first: Value
    #: the panel's part of the mask, if there is one
    mask: MaskPanel | None

    @staticmethod
    def of(op: Attention, batch: Value, head: Value, kv_head: Value, first: Value, memory: Value | None) -> Panel:
        """A panel with its mask. `memory` is scratch memory for the mask of a block of keys."""
        mask = None
        if op.mask is not None:
            mask = MaskPanel(op.mask, batch, head, first, op.sizes[2], op.keys, op.tile.queries, memory)
        return Panel(op, batch, head, kv_head, first, mask)

    # -- queries ----------------------------------------------------------------------------------
    def there(self, row: Value) -> Mask:
        """The mask that is set if query `row` exists: the last panel may have surplus rows."""
        _, _, queries, _ = self.op.sizes
        if queries % self.op.tile.queries == 0:
            return Mask()
        return Mask.of_all(arith.cmpi(arith.CmpIPredicate.ult, row, index_value(queries)))

    def count(self) -> Extent:
        """The count of the panel's existing queries."""
        _, _, queries, _ = self.op.sizes
        size = self.op.tile.queries
        if queries % size == 0:
            return size
        return arith.minui(index_value(size), arith.subi(index_value(queries), self.first))

    def turn(self, source: Value, target: Value, change: Callable[[Value, Value, Value], Value] | None = None) -> None:
        """Transposes: target[d, m] = source[first + m, d]. `change(x, d, m)` maps each vector that is stored."""

        def square(m: Value, d: Value, count: int) -> None:
            rows = self._load_square(source, m, d, count)
            for i, row in enumerate(transposed(rows)):
                at = plus(d, i)
                Mask().store(change(row, at, m) if change else row, target, [at, m])

        depth = four_sizes(source)[3]
        loop(0, self.op.tile.queries, LANES, lambda m: blocks(depth, LANES, lambda d, n, _: square(m, d, n)))

    def turn_back(self, source: Value, target: Value, change: Callable[[Value, Value], Value] | None = None) -> None:
        """Transposes back: target[first + m, d] = source[d, m]. `change(x, m)` maps each vector of queries."""

        def square(m: Value, d: Value, count: int) -> None:
            columns = [Mask().load(source, [plus(d, i), m]) for i in range(count)]
            columns = [change(x, m) if change else x for x in columns] + [splat(0.0)] * (LANES - count)
            for i, row in enumerate(transposed(columns)):
                at = plus(arith.addi(self.first, m), i)
                (self.there(at) & Mask.of_first(count)).store(row, target, [self.batch, self.head, at, d])

        depth = four_sizes(target)[3]
        loop(0, self.op.tile.queries, LANES, lambda m: blocks(depth, LANES, lambda d, n, _: square(m, d, n)))

    def _load_square(self, source: Value, m: Value, d: Value, count: int) -> list[Value]:
        rows = [plus(arith.addi(self.first, m), i) for i in range(LANES)]
        return [(self.there(r) & Mask.of_first(count)).load(source, [self.batch, self.head, r, d]) for r in rows]

    def write_each(self, row: Value, target: Value) -> None:
        """target[first + m] = row[0, m]. `target` is [B, H, L] with any strides."""

        def one(m: Value) -> None:
            memref.store(memref.load(row, [index_value(0), m]), target, self._place(m))

        loop(0, self.count(), 1, one)

    def read_each(self, source: Value, row: Value) -> None:
        """row[0, m] = source[first + m]; zeros for surplus queries."""
        self.store_row([splat(0.0)] * self.op.vectors, row, index_value(0))
        loop(0, self.count(), 1, lambda m: memref.store(memref.load(source, self._place(m)), row, [index_value(0), m]))

    def _place(self, m: Value) -> list[Value]:
        return [self.batch, self.head, arith.addi(self.first, m)]

    # -- keys -------------------------------------------------------------------------------------
    def end(self) -> Value:
        """The end of the keys that any query of the panel sees (exclusive)."""
        if not self.op.causal:
            return index_value(self.op.keys)
        return arith.minui(index_value(self.op.keys), plus(self.first, self.op.tile.queries))

    def key_blocks(self, body: Callable[..., Sequence[Value] | None], carried: Sequence[Value] = ()) -> list[Value]:
        """A loop over blocks of keys that some query sees. `body` takes a block's first key, its count of keys, and the
        carried values."""
        end, size = self.end(), self.op.tile.keys
        whole = not self.op.causal and self.op.keys % size == 0

        def block(first: Value, *values: Value) -> Sequence[Value] | None:
            count = index_value(size) if whole else arith.minui(index_value(size), arith.subi(end, first))
            if self.mask is None:
                return body(first, count, *values)
            # A mask of -inf adds nothing to the sums.
            return where(self.mask.prepare(first, count), lambda: body(first, count, *values), carried=values)

        return loop(0, end, size, block, carried)

    def limits(self) -> list[Value] | None:
        """Vectors of the last key that each query sees; None if all queries see all keys."""
        i32 = ir.IntegerType.get_signless(32)
        vector_of_i32 = ir.VectorType.get([LANES], i32)
        whole = spread(arith.index_cast(i32, index_value(self.op.keys - 1)))
        if not self.op.causal:
            return None if self.op.keys % self.op.tile.rows == 0 else [whole] * self.op.vectors
        first = arith.index_cast(i32, self.first)
        found = []
        for j in range(self.op.vectors):
            steps = ir.DenseElementsAttr.get(
                [ir.IntegerAttr.get(i32, j * LANES + i) for i in range(LANES)], type=vector_of_i32
            )
            query = arith.addi(spread(first), arith.ConstantOp(vector_of_i32, steps).result)
            found.append(arith.minsi(query, whole))
        return found

    def places(self, first: Value, rows: int) -> list[Value]:
        """The indices of `rows` keys from `first` on. Indices past the last key are replaced by the last key."""
        keys = [plus(first, r) for r in range(rows)]
        if self.op.keys % self.op.tile.rows == 0:
            return keys
        return [arith.minui(key, index_value(self.op.keys - 1)) for key in keys]

    def products(self, factor: Value, keys: Sequence[Value], columns: Value) -> Rows:
        """The products factor[key, :] · columns[:, m], with a row for each key."""
        depth = four_sizes(factor)[3]
        return sums(
            len(keys),
            self.op.vectors,
            depth,
            lambda r, d: memref.load(factor, [self.batch, self.kv_head, keys[r], d]),
            lambda j, d: Mask().load(columns, [d, index_value(j * LANES)]),
        )

    def scores(self, block: Value, row: Value, queries: Value, limits: Sequence[Value] | None) -> Rows:
        """The scores of the keys from block + row on; -inf for a key that a query does not see."""
        first = arith.addi(block, row)
        keys = self.places(first, self.op.tile.rows)
        found = self.products(self.op.k, keys, queries)
        for r, key in enumerate(keys):
            if self.mask is not None:
                added = self.mask.row(plus(row, r), key)
                found[r] = [arith.addf(x, y) for x, y in zip(found[r], added, strict=True)]
            if limits is not None:
                number = spread(arith.index_cast(ir.IntegerType.get_signless(32), plus(first, r)))
                seen = [arith.cmpi(arith.CmpIPredicate.sle, number, limit) for limit in limits]
                found[r] = [arith.select(yes, x, splat(MINUS_INFINITY)) for yes, x in zip(seen, found[r], strict=True)]
        return found

    def add_values(
        self, factor: Value, block: Value, count: Value, weights: Value, total: Value, share: Sequence[Value] | None
    ) -> None:
        """total[d, m] = total[d, m] * share[m] + the sum over a block's keys of factor[key, d] * weights[key, m].

        Each block is summed separately: sums of 64 numbers are more exact than sums of a thousand.
        """

        def rows(d: Value, height: int, _: Value | None) -> None:
            found = sums(
                height,
                self.op.vectors,
                count,
                lambda r, n: memref.load(factor, [self.batch, self.kv_head, arith.addi(block, n), plus(d, r)]),
                lambda j, n: self._load(weights, n, j),
            )
            for r, row in enumerate(found):
                before = self.load_row(total, plus(d, r))
                if share is None:
                    row = [arith.addf(x, y) for x, y in zip(before, row, strict=True)]
                else:
                    row = [vector.fma(x, part, y) for x, part, y in zip(before, share, row, strict=True)]
                self.store_row(row, total, plus(d, r))

        blocks(four_sizes(factor)[3], self.op.tile.rows, rows)

    def load_row(self, buffer: Value, row: Value) -> list[Value]:
        return [self._load(buffer, row, j) for j in range(self.op.vectors)]

    @staticmethod
    def _load(buffer: Value, row: Value, j: int) -> Value:
        return Mask().load(buffer, [row, index_value(j * LANES)])

    @staticmethod
    def store_row(values: Sequence[Value], buffer: Value, row: Value) -> None:
        for j, x in enumerate(values):
            Mask().store(x, buffer, [row, index_value(j * LANES)])
