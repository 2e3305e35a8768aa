"""Writes the loops of attention of few queries, as when a text is made token by token: it reads the cache once.

A tile is a head of k and v, with all queries that share it: those of the heads of q in its group. The elements of a
head lie along vectors, for which the queries need not fill vectors, and narrow elements are widened where they are
loaded.

    scores[m, n] = sum of queries[m, :] * k[n, :]         of 16 keys at once: added up across vectors by 15 shuffles
    total[m, :] = total[m, :] * share[m] + sum over n of weights[m, n] * v[n, :]

Blocks of keys follow one another with running maxima and sums. A block that the mask hides is passed over, and a key
asks for the key a block behind it.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, memref, scf, vector
from cuesta.dialects.kernel_attention import LANES, FewQueries, KernelAttention
from cuesta.dialects.kernel_module import count_tiles
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.attention_to_loops.masks import any_of, is_seen, to_add
from cuesta.lowering.attention_to_loops.panel import four_sizes
from cuesta.lowering.attention_to_loops.vectors import Mask, larger, plus, splat, spread
from cuesta.lowering.linalg_to_loops.sums.added_across import AddedAcross
from cuesta.lowering.linalg_to_loops.vector_loops import (
    LINE,
    Extent,
    blocks,
    loop,
    scratch,
    value_of,
    vector_type,
    where,
)
from cuesta.sizes import Number

Value: TypeAlias = ir.Value

#: Rows whose weights are computed at once.
_ROWS = 4
#: The most sums in registers.
_SUMS = 16


def write_few_queries(op: ir.Operation) -> None:
    """Writes the loops of an attention op before the op."""
    masked = KernelAttention.masked.of(op)
    q, k, v, *mask = list(op.operands)[: 4 if masked else 3]
    output, logsumexp = list(op.operands)[-2:]
    block = FewQueries.parse(KernelAttention.tile.of(op)).keys
    sizes, few, width = four_sizes(q), four_sizes(k)[1], four_sizes(v)[3]
    batch, heads, queries, depth = sizes
    assert isinstance(queries, int)
    rows = heads // few * queries
    kernel = _Kernel(
        *(q, k, v, mask[0] if mask else None, output, logsumexp),
        scale=KernelAttention.scale.of(op),
        block=block,
        queries_memory=scratch([rows, _whole(depth)]),
        scores=scratch([rows, block]),
        added=scratch([rows, block]) if mask else None,
        total=scratch([rows, _whole(width)]),
        peaks=scratch([rows, LANES]),
        sums=scratch([rows, LANES]),
        shares=scratch([rows, LANES]),
    )
    bounds = [index_value(batch) if not isinstance(batch, int) else batch, few]
    tiles = scf.ForallOp([0, 0], bounds, [1, 1], [])
    count_tiles(tiles, [batch, few], batch * kernel.keys * (rows * few * (depth + width + LANES)))
    with ir.InsertionPoint(tiles.body):
        _Head(kernel, *tiles.induction_variables).write()
        scf.InParallelOp()


@dataclass(frozen=True)
class _Kernel:
    """The buffers of a kernel, and its scratch memory."""

    q: Value
    k: Value
    v: Value
    mask: Value | None
    output: Value
    logsumexp: Value
    scale: float
    #: keys of a block
    block: int
    queries_memory: Value
    scores: Value
    #: what the mask adds to the scores of a block
    added: Value | None
    total: Value
    #: of each row: the maximum so far, the sum of weights so far, and the share that a block leaves of them
    peaks: Value
    sums: Value
    shares: Value

    @property
    def keys(self) -> Number:
        return four_sizes(self.k)[2]

    @property
    def rows(self) -> int:
        """The queries of all heads in a group."""
        count: int = ir.MemRefType(self.scores.type).shape[0]
        return count

    @property
    def queries(self) -> int:
        count = four_sizes(self.q)[2]
        assert isinstance(count, int)
        return count

    @property
    def depth(self) -> int:
        return four_sizes(self.q)[3]

    @property
    def width(self) -> int:
        return four_sizes(self.v)[3]

    @property
    def fills_vectors(self) -> bool:
        """Whether each block has as many keys as fill vectors."""
        return isinstance(self.keys, int) and self.keys % LANES == 0


@dataclass(frozen=True)
class _Head:
    """The computation for one head of k and v."""

    op: _Kernel
    batch: Value
    head: Value

    def write(self) -> None:
        op = self.op
        loop(0, op.rows, 1, self._begin)
        whole = isinstance(op.keys, int) and op.keys % op.block == 0
        end = self._end()

        def block(first: Value) -> None:
            count: Extent = op.block if whole else arith.minui(index_value(op.block), arith.subi(end, first))
            seen = None if op.mask is None else self._read_mask(first, count)
            where(seen, lambda: self._block(first, count))

        loop(0, end, op.block, block)
        loop(0, op.rows, 1, self._finish)

    # -- queries ----------------------------------------------------------------------------------
    def _place(self, row: Value) -> list[Value]:
        """Batch, head and query of a row."""
        op = self.op
        group = op.rows // op.queries
        first = arith.muli(self.head, index_value(group))
        if op.queries == 1:
            return [self.batch, arith.addi(first, row), index_value(0)]
        many = index_value(op.queries)
        return [self.batch, arith.addi(first, arith.divui(row, many)), arith.remui(row, many)]

    def _begin(self, row: Value) -> None:
        op, nothing = self.op, splat(0.0)
        place = self._place(row)
        for d, lanes in _vectors(op.depth):
            x = arith.mulf(_wide(lanes, op.q, [*place, d]), splat(op.scale))
            Mask().store(x, op.queries_memory, [row, d])
        for d, _ in _vectors(op.width):
            Mask().store(nothing, op.total, [row, d])
        zero = index_value(0)
        Mask().store(splat(-numbers.inf), op.peaks, [row, zero])
        Mask().store(nothing, op.sums, [row, zero])

    def _finish(self, row: Value) -> None:
        op, zero = self.op, index_value(0)
        place = self._place(row)
        peak, total = (Mask().load(x, [row, zero]) for x in (op.peaks, op.sums))
        # The output of a query that sees no keys is 0, as in ATen's kernel.
        safe = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, total, splat(0.0)), splat(1.0), total)
        one = arith.divf(splat(1.0), safe)
        kind = ir.VectorType.get([LANES], ir.MemRefType(op.output.type).element_type)
        for d, lanes in _vectors(op.width):
            x = arith.mulf(Mask().load(op.total, [row, d]), one)
            lanes.store(x if x.type == kind else arith.truncf(kind, x), op.output, [*place, d])
        last = arith.addf(peak, math.log(total))
        memref.store(vector.extract(last, [], [0]), op.logsumexp, place)

    # -- masks ------------------------------------------------------------------------------------
    @property
    def _masks(self) -> tuple[int, int]:
        """The different masks along a group's heads and along queries."""
        assert self.op.mask is not None
        (_, heads, queries, _), _ = memref_shape(self.op.mask.type)
        return (1 if heads == 1 else self.op.rows // self.op.queries), (1 if queries == 1 else self.op.queries)

    def _mask_of(self, row: Value) -> Value:
        """The place of a row's mask among those that were read."""
        op, (heads, queries) = self.op, self._masks
        if heads * queries == op.rows:
            return row
        if heads * queries == 1:
            return index_value(0)
        return (arith.divui if queries == 1 else arith.remui)(row, index_value(op.queries))

    def _read_mask(self, first: Value, count: Extent) -> Value:
        """Reads the masks of a block of keys. Returns whether any row sees a key."""
        op, (heads, queries) = self.op, self._masks
        mask, memory = op.mask, op.added
        assert mask is not None and memory is not None
        sizes, strides = memref_shape(mask.type)
        group = op.rows // op.queries

        def place(m: Value, key: Value) -> list[Value]:
            head, query = index_value(0), index_value(0)
            if heads > 1:
                inside = m if queries == 1 else arith.divui(m, index_value(queries))
                head = arith.addi(arith.muli(self.head, index_value(group)), inside)
            elif sizes[1] != 1:
                head = self.head  # a group of one head
            if queries > 1:
                query = m if heads == 1 else arith.remui(m, index_value(queries))
            return [
                index_value(0) if n == 1 else at for n, at in zip(sizes, (self.batch, head, query, key), strict=True)
            ]

        def sixteen(m: Value, n: Value) -> Value:
            key = arith.addi(first, n)
            lanes = Mask() if op.fills_vectors else Mask.up_to(arith.subi(value_of(count), n))
            kind = ir.VectorType.get([LANES], ir.MemRefType(mask.type).element_type)
            x = to_add(lanes.load(mask, place(m, key), kind))
            Mask().store(x, memory, [m, n])
            seen = is_seen(x) if lanes.lanes is None else arith.andi(is_seen(x), lanes.lanes)
            return vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, seen)

        def one(m: Value, n: Value) -> Value:
            x = to_add(memref.load(mask, place(m, arith.addi(first, n))))
            memref.store(x, memory, [m, n])
            return is_seen(x)

        read, step = (sixteen, LANES) if strides[3] == 1 and sizes[3] != 1 else (one, 1)
        return any_of(heads * queries, lambda m: any_of(count, lambda n: read(m, n), step))

    # -- a block of keys --------------------------------------------------------------------------
    def _block(self, first: Value, count: Extent) -> None:
        op = self.op

        def sixteen(n: Value) -> None:
            start = arith.addi(first, n)
            keys = [self._there(plus(start, i)) for i in range(LANES)]
            for key in keys:
                self._ask(op.k, key)
            loop(0, op.rows, 1, lambda m: self._scores(keys, count, n, m))

        loop(0, count, LANES, sixteen)
        blocks(op.rows, _ROWS, lambda m, rows, _: self._weigh([plus(m, r) for r in range(rows)], count))
        for start in range(0, op.width, _SUMS * LANES):
            self._add_some(first, count, _vectors(op.width)[start // LANES : start // LANES + _SUMS])

    def _scores(self, keys: Sequence[Value], count: Extent, n: Value, row: Value) -> None:
        """The scores of a row and 16 keys, from the n-th of the block on."""
        op, sums = self.op, AddedAcross()
        queries = [Mask().load(op.queries_memory, [row, d]) for d, _ in _vectors(op.depth)]
        for key in keys:
            total: Value | None = None
            for (d, lanes), x in zip(_vectors(op.depth), queries, strict=True):
                y = _wide(lanes, op.k, [self.batch, self.head, key, d])
                total = arith.mulf(x, y) if total is None else vector.fma(x, y, total)
            assert total is not None
            sums.take(total)
        scores = sums.sums()
        if op.added is not None:
            scores = arith.addf(scores, Mask().load(op.added, [self._mask_of(row), n]))
        if not op.fills_vectors:
            there = Mask.up_to(arith.subi(value_of(count), n)).lanes
            scores = arith.select(there, scores, splat(-numbers.inf))
        Mask().store(scores, op.scores, [row, n])

    def _there(self, key: Value) -> Value:
        """A key, or the last one for a place behind it."""
        if self.op.fills_vectors:
            return key
        return arith.minui(key, arith.subi(self._end(), index_value(1)))

    def _end(self) -> Value:
        return index_value(self.op.keys)

    def _ask(self, buffer: Value, key: Value) -> None:
        """Prefetches the key that is a block behind a key."""
        ahead = arith.minui(plus(key, self.op.block), arith.subi(self._end(), index_value(1)))
        kind = ir.MemRefType(buffer.type).element_type
        for d in range(0, four_sizes(buffer)[3], LINE * 8 // kind.width):
            memref.prefetch(buffer, [self.batch, self.head, ahead, index_value(d)], False, 3, True)

    def _weigh(self, rows: Sequence[Value], count: Extent) -> None:
        """Turns the scores of some rows into weights, and updates their maxima and sums. Several rows at once hide how
        long a maximum and an exponential take."""
        op, zero = self.op, index_value(0)

        def largest(n: Value, *found: Value) -> list[Value]:
            return [larger(Mask().load(op.scores, [row, n]), x) for row, x in zip(rows, found, strict=True)]

        before = [Mask().load(op.peaks, [row, zero]) for row in rows]
        peaks = [_largest_of(x) for x in loop(0, count, LANES, largest, before)]
        # A row that has seen no key yet has the maximum -inf, and -inf - -inf is NaN.
        lowest = splat(-numbers.inf)
        bases = [arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, lowest), splat(0.0), x) for x in peaks]

        def weigh(n: Value, *so_far: Value) -> list[Value]:
            found = [
                math.exp(arith.subf(Mask().load(op.scores, [row, n]), base))
                for row, base in zip(rows, bases, strict=True)
            ]
            for row, x in zip(rows, found, strict=True):
                Mask().store(x, op.scores, [row, n])
            return [arith.addf(x, y) for x, y in zip(so_far, found, strict=True)]

        added = loop(0, count, LANES, weigh, [splat(0.0)] * len(rows))
        for row, old, peak, base, x in zip(rows, before, peaks, bases, added, strict=True):
            share = math.exp(arith.subf(old, base))
            total = vector.fma(Mask().load(op.sums, [row, zero]), share, _sum_of(x))
            for buffer, value in ((op.sums, total), (op.peaks, peak), (op.shares, share)):
                Mask().store(value, buffer, [row, zero])

    def _add_some(self, first: Value, count: Extent, parts: Sequence[tuple[Value, Mask]]) -> None:
        """Adds the weighted values of a block to the totals of all rows, for some vectors of a row of v."""
        rows = max(1, _SUMS // len(parts))
        blocks(self.op.rows, rows, lambda m, some, _: self._add(first, count, m, some, parts))

    def _add(self, first: Value, count: Extent, m: Value, rows: int, parts: Sequence[tuple[Value, Mask]]) -> None:
        """Adds the weighted values of a block to the totals of `rows` rows from m on, for some vectors of a row of
        v."""
        op = self.op
        at = [plus(m, r) for r in range(rows)]

        def step(n: Value, *sums: Value) -> list[Value]:
            key = arith.addi(first, n)
            self._ask(op.v, key)
            values = [_wide(lanes, op.v, [self.batch, self.head, key, d]) for d, lanes in parts]
            found = []
            for r, row in enumerate(at):
                weight = spread(memref.load(op.scores, [row, n]))
                found += [vector.fma(weight, x, sums[r * len(parts) + j]) for j, x in enumerate(values)]
            return found

        found = loop(0, count, 1, step, [splat(0.0)] * (rows * len(parts)))
        for r, row in enumerate(at):
            share = Mask().load(op.shares, [row, index_value(0)])
            for j, (d, _) in enumerate(parts):
                total = vector.fma(Mask().load(op.total, [row, d]), share, found[r * len(parts) + j])
                Mask().store(total, op.total, [row, d])


def _whole(size: int) -> int:
    """The elements of as many vectors as hold `size` elements."""
    return -(-size // LANES) * LANES


def _vectors(size: int) -> list[tuple[Value, Mask]]:
    """The vectors along a row of `size` elements: where each begins, and its lanes."""
    return [(index_value(d), Mask.of_first(size - d)) for d in range(0, size, LANES)]


def _wide(lanes: Mask, buffer: Value, at: Sequence[Value]) -> Value:
    """Loads a vector as f32."""
    element = ir.MemRefType(buffer.type).element_type
    x = lanes.load(buffer, at, ir.VectorType.get([LANES], element))
    f32 = ir.F32Type.get()
    return x if element == f32 else arith.extf(ir.VectorType.get([LANES], f32), x)


def _sum_of(x: Value) -> Value:
    """A vector in each of whose lanes is the sum of all lanes of x."""
    return spread(vector.reduction(ir.F32Type.get(), vector.CombiningKind.ADD, x, fastmath=arith.FastMathFlags.reassoc))


def _largest_of(x: Value) -> Value:
    """A vector in each of whose lanes is the largest lane of x, or NaN. Integers in the order of floats are compared:
    of floats LLVM compares one after the other, for the sake of NaN."""
    word = ir.IntegerType.get_signless(32)
    words = ir.VectorType.get([LANES], word)

    def number(of: int) -> Value:
        value = ir.DenseElementsAttr.get_splat(words, ir.IntegerAttr.get(word, of))
        return arith.ConstantOp(words, value).result

    def ordered(bits: Value) -> Value:
        sign = arith.shrsi(bits, number(31))
        return arith.xori(bits, arith.andi(sign, number(0x7FFFFFFF)))

    found = vector.reduction(word, vector.CombiningKind.MAXSI, ordered(arith.bitcast(words, x)))
    return arith.bitcast(vector_type(), ordered(spread(found)))
