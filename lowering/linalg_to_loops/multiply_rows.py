"""Lowers products of a few rows by a linear layer's weight: each row of the weight is read once, for all sums with it.

linalg.generic {mulf, addf}                     scf.for %n = 0 to 64 step 16 { scf.for %j = 0 to 16 step 2 {
  ins(%a : memref<4x1024xbf16>,                   %sums:8 = scf.for %k = 0 to 1024 step 32 {
      %b : memref<64x1024xbf16>)           →        memref.prefetch %b[%n + %j + 4, %k]
  outs(%c : memref<4x64xf32>)                       dpbf16ps %a[%m, %k .. %k + 32], %b[%n + %j, %k .. %k + 32] …
  {cuesta.product_tile = "4x64x1024 by 4x2"}      store %sums }
                                                  %c[%m, %n .. %n + 16] += the sums over 16 vectors … }

With so few rows a product waits for its weight. Vectors lie along K, in which the weight is contiguous: nothing is
packed or transposed, and the sums of all rows with one or two rows of the weight are in registers. Where the processor
multiplies pairs of bf16 (AVX512-BF16), as a library does there, 16 rows take little more time than one; elsewhere
elements are widened to f32: those of the left factor once a tile, those of the weight once for all rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref, vector
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.kernel_module import body_ops, kernel_modules
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import Panels, panels_of
from cuesta.dialects.types import index_value
from cuesta.lowering.linalg_to_loops.multiply_panels import loops_of
from cuesta.lowering.linalg_to_loops.panel import Matrix
from cuesta.lowering.linalg_to_loops.sums.added_across import AddedAcross
from cuesta.lowering.linalg_to_loops.vector_loops import (
    AHEAD,
    LANES,
    LINE,
    Extent,
    blocks,
    keep_whole,
    loop,
    scratch,
    value_of,
    vector_type,
    whole_blocks,
    zeros,
)
from cuesta.lowering.linalg_to_loops.views import kept_dims, starts_of
from cuesta.lowering.linalg_to_loops.x86 import multiply_pairs
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.runtime.machine import instructions

Value: TypeAlias = ir.Value

#: bf16 elements of a vector.
_PAIRS = 2 * LANES
#: The fewest vectors of sums that hide how long an addition takes, and the most that fit into registers: 32 of 16 f32,
#: or 16 of 8, two for each vector.
_FEWEST_SUMS, _MOST_SUMS, _MOST_NARROW = 4, 24, 6
_NARROW = ("bf16", "f16")


@register_pass("multiply-rows")
@dataclass(frozen=True)
class MultiplyRows(Pass):
    """Lowers products of few rows of tiles to loops of vectors along K."""

    #: Whether the processor multiplies pairs of bf16: "yes", "no", or as this machine's does, "host".
    pairs: str = "host"
    #: How many vectors of sums stay in registers; 0: as many as this machine has room for.
    sums: int = 0

    def run(self, module: ir.Module) -> None:
        own = instructions()
        pairs = "avx512_bf16" in own if self.pairs == "host" else self.pairs == "yes"
        most = self.sums or (_MOST_SUMS if "avx512f" in own else _MOST_NARROW)
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        for op in [op for op in walk(function.operation) if is_generic(op)]:
                            product = _product_of(op, pairs, most)
                            if product is not None:
                                entry = function.regions[0].blocks[0]
                                with ir.InsertionPoint(op), op.location:
                                    product.write(entry)
                                op.erase()


@dataclass(frozen=True)
class _Product:
    """c[m, n] += a[m, k] * b[n, k], all contiguous along their last index."""

    a: Matrix
    b: Matrix
    c: Matrix
    tile: Panels
    pairs: bool
    #: the most vectors of sums in registers
    most: int
    #: the part of K that is summed: where it begins, and its length
    start: Value | None = None
    depth: Extent = 0

    @property
    def m(self) -> int:
        size, _ = self.a.numbers
        assert size is not None
        return size

    @property
    def k(self) -> Extent:
        return self.a.sizes[1]

    def write(self, entry: ir.Block) -> None:
        """Writes the loops at the current insertion point, with scratch memory allocated at the function's beginning.
        A part of K follows another, so that the left factor's stays in L1."""
        with ir.InsertionPoint.at_block_begin(entry):
            sums = scratch([LANES, self.m, LANES])
            size = -(-self.tile.k // self.lanes) * self.lanes * self.m
            packed = scratch([size], _element(self.a) if self.pairs else None)
        if not isinstance(self.k, int):
            replace(self, start=index_value(0), depth=self.k).write_part(sums, None)
            return
        blocks(self.k, self.tile.k, lambda k, n, _: replace(self, start=k, depth=n).write_part(sums, packed))

    def write_part(self, sums: Value, packed: Value | None) -> None:
        """Writes the loops of a part of K. `packed`: memory for the part of the left factor."""
        n, _ = self.b.sizes
        if packed is not None:
            self._pack(packed)

        def sixteen(first: Value) -> None:
            def some(j: Value) -> None:
                for m in range(0, self.m, self.tile.rows):
                    rows = range(m, min(m + self.tile.rows, self.m))
                    self._sums(packed, rows, arith.addi(first, j), j, sums)

            loop(0, LANES, self.tile.columns, some)
            loop(0, self.m, 1, lambda m: self._add(first, m, sums))

        loop(0, n, LANES, sixteen)

    @property
    def lanes(self) -> int:
        """Elements of a vector along K."""
        return _PAIRS if self.pairs else LANES

    def _pack(self, packed: Value) -> None:
        """Lays out the left factor as vectors in the order in which they are read, [K / lanes, M, lanes] in one dim, so
        that its rows do not fall into the same sets of a cache; widened unless pairs are multiplied."""
        assert isinstance(self.depth, int)

        def pack(k: Value, mask: Value | None = None) -> None:
            for m in range(self.m):
                vector.store(self._vector(self.a, index_value(m), k, mask), packed, [self._place(k, m)])

        whole = self.depth // self.lanes * self.lanes
        loop(0, whole, self.lanes, pack)
        loop(whole, self.depth, self.lanes, lambda k: pack(k, self._first(k)))

    def _place(self, k: Value, m: int) -> Value:
        """Where a row's vector from k on lies in the packed left factor."""
        return arith.addi(arith.muli(k, index_value(self.m)), index_value(m * self.lanes))

    def _first(self, k: Value) -> Value:
        """The mask of the elements of a vector from k on that there are."""
        kind = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        return vector.create_mask(kind, [arith.subi(value_of(self.depth), k)])

    def _sums(self, packed: Value | None, rows: range, first: Value, j: Value, sums: Value) -> None:
        """Stores the vectors of sums of some rows with rows of the weight from `first` on, at place j."""
        lanes, columns = self.lanes, range(self.tile.columns)
        count = len(columns) * len(rows)
        unrolled = max(1, _FEWEST_SUMS // count)
        if lanes * _element(self.b).width < 8 * LINE:
            unrolled = max(2, unrolled)  # a cache line of the weight
        step, sets = unrolled * lanes, max(1, min(unrolled, self.most // count))
        weights = [arith.addi(first, index_value(c)) for c in columns]
        ahead = self._ahead(first) if rows.start == 0 else None

        def vectors(k: Value, *totals: Value, mask: Value | None = None, most: int = unrolled) -> list[Value]:
            found = list(totals)
            self._ask(ahead, k, most * lanes)
            for u in range(most):
                at = arith.addi(k, index_value(u * lanes)) if u else k
                right = [self._vector(self.b, row, at, mask) for row in weights]
                for i, m in enumerate(rows):
                    x = self._left(packed, at, m, mask)
                    for c, y in enumerate(right):
                        place = u % sets * count + c * len(rows) + i
                        found[place] = self._multiply(x, y, found[place])
            return found

        whole = whole_blocks(self.depth, step)
        made = loop(0, whole, step, vectors, [zeros()] * (sets * count))
        keep_whole(made)

        def rest(k: Value, *totals: Value) -> list[Value]:
            return vectors(k, *totals, mask=self._first(k), most=1)

        made = [*loop(whole, self.depth, lanes, rest, made[:count]), *made[count:]]
        for c in columns:
            for i, m in enumerate(rows):
                parts = made[c * len(rows) + i :: count]
                total = functools.reduce(arith.addf, parts)
                vector.store(total, sums, [arith.addi(j, index_value(c)), index_value(m), index_value(0)])

    def _left(self, packed: Value | None, k: Value, m: int, mask: Value | None) -> Value:
        if packed is None:
            return self._vector(self.a, index_value(m), k, mask)
        kind = ir.VectorType.get([self.lanes], ir.MemRefType(packed.type).element_type)
        return vector.load(kind, packed, [self._place(k, m)])

    def _add(self, first: Value, m: Value, sums: Value) -> None:
        """Adds the sums of a row with 16 rows of the weight to the result."""
        across = AddedAcross()
        for j in range(LANES):
            across.take(vector.load(vector_type(), sums, [index_value(j), m, index_value(0)]))
        place = self.c.at(m, first)
        before = vector.load(vector_type(), self.c.buffer, place)
        vector.store(arith.addf(before, across.sums()), self.c.buffer, place)

    def _vector(self, matrix: Matrix, row: Value, k: Value, mask: Value | None) -> Value:
        """Loads a vector along K, from k in the part on: 32 elements for pairs, or 16 as f32."""
        k = arith.addi(self.start, k)
        if not self.pairs:
            return matrix.vector(row, k, mask)
        kind = ir.VectorType.get([_PAIRS], ir.BF16Type.get())
        place = matrix.at(row, k)
        if mask is None:
            return vector.load(kind, matrix.buffer, place)
        zero = ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get(ir.BF16Type.get(), 0.0))
        return vector.maskedload(kind, matrix.buffer, place, mask, arith.ConstantOp(kind, zero).result)

    def _multiply(self, x: Value, y: Value, total: Value) -> Value:
        return multiply_pairs(x, y, total) if self.pairs else vector.fma(x, y, total)

    def _ahead(self, row: Value) -> tuple[Value, list[Value]] | None:
        """The matrix that the weight's rows are of, and where in it what is read `AHEAD` bytes after a row begins."""
        view = maker(self.b.buffer, memref.SubViewOp)
        if view is None or not isinstance(self.depth, int):
            return None
        source, starts, kept = view.operands[0], starts_of(view), kept_dims(view)
        kind, columns = ir.MemRefType(source.type), self.tile.columns
        if len(kept) != 2 or kept != [kind.rank - 2, kind.rank - 1] or not kind.has_static_shape:
            return None
        count = -(-AHEAD * 8 // (columns * self.depth * _element(self.b).width)) * columns
        at = arith.addi(arith.addi(starts[kept[0]], row), index_value(count))
        starts[kept[0]] = arith.minui(at, index_value(max(kind.shape[kept[0]] - columns, 0)))
        starts[-1] = arith.addi(starts[-1], self.start)
        return source, starts

    def _ask(self, place: tuple[Value, list[Value]] | None, k: Value, count: int) -> None:
        """Prefetches as much as `count` elements of each row of the weight: one line after the other in the order of
        memory if rows are read whole, for k such elements come before."""
        if place is None:
            return
        source, starts = place
        line = 8 * LINE // _element(self.b).width
        whole = ir.MemRefType(source.type).get_strides_and_offset()[0][-2] == self.depth
        first = arith.muli(k, index_value(self.tile.columns)) if whole else k
        first, rows = arith.addi(starts[-1], first), 1 if whole else self.tile.columns
        for at in range(0, count * self.tile.columns // rows, line):
            for c in range(rows):
                row = arith.addi(starts[-2], index_value(c))
                memref.prefetch(source, [*starts[:-2], row, arith.addi(first, index_value(at))], False, 3, True)


def _product_of(op: ir.Operation, pairs: bool, most: int) -> _Product | None:
    """The product of few rows that a generic computes; None for any other generic, and if a matrix is not contiguous
    as these loops need it."""
    tile = panels_of(op)
    if tile is None or not tile.along_k or not _is_plain(op):
        return None
    at_m, at_n, at_k = loops_of(op)
    maps, loops = operand_dims(op), ((at_m, at_k), (at_n, at_k), (at_m, at_n))
    if any(len(dims) != 2 for dims in maps):
        return None
    a, b, c = (
        Matrix(buffer, (dims.index(first), dims.index(second)))
        for buffer, dims, (first, second) in zip(op.operands, maps, loops, strict=True)
    )
    (m, _), (n, _) = a.numbers, b.numbers
    if not all(x.runs(1) for x in (a, b, c)) or m is None or n is None or n % LANES:
        return None
    return _Product(a, b, c, tile, pairs and all(str(_element(x)) == "bf16" for x in (a, b)), most)


def _is_plain(op: ir.Operation) -> bool:
    """Whether a generic is a plain matrix product of floats, which it widens to f32, and sums in f32."""
    *factors, result = (str(ir.MemRefType(v.type).element_type) for v in op.operands)
    narrow = sum(factor in _NARROW for factor in factors)
    steps = (*[arith.ExtFOp] * narrow, arith.MulFOp, arith.AddFOp, linalg.YieldOp)
    names = [inner.name for inner in body_ops(op)]
    return len(factors) == 2 and result == "f32" and names == [step.OPERATION_NAME for step in steps]


def _element(matrix: Matrix) -> ir.Type:
    return ir.MemRefType(matrix.buffer.type).element_type
