"""Writes the loops of one panel of a product's right factor: packing, multiplication, prefetch of the next panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, memref, scf, vector
from cuesta.dialects import maker
from cuesta.dialects.product import Panels
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.lowering.linalg_to_loops.vector_loops import (
    LANES,
    Extent,
    blocks,
    first_lanes,
    loop,
    value_of,
    vector_type,
    where,
    whole_blocks,
    zeros,
)
from cuesta.lowering.linalg_to_loops.views import kept_dims, starts_of

Value: TypeAlias = ir.Value

#: A packed panel is multiplied for long enough to prefetch the next one if there are at least this many blocks of rows.
_FEWEST_BLOCKS = 3
#: A packed panel that is multiplied by few rows prefetches its own rows, this many rows ahead.
_ROWS_AHEAD = 32
#: A packed panel of at most so many elements stays in L1. Of a larger panel, rows are prefetched so many rows ahead.
_IN_L1, _ROWS_FOLLOWING = 6144, 8
#: The most cache lines to prefetch in each step of K: a step has 11 loads in 12 cycles, in which 24 are possible.
_MOST_LINES = 4


@dataclass(frozen=True)
class Matrix:
    """A buffer of f32 or f16 that two of the loops M, N and K walk. `order` has the buffer's dim of each loop."""

    buffer: Value
    order: tuple[int, int]

    def at(self, first: Value, second: Value) -> list[Value]:
        """The indices of an element in the buffer, from its indices along the two loops."""
        given = (first, second)
        return [given[self.order.index(dim)] for dim in range(2)]

    def number(self, first: Value, second: Value) -> Value:
        """Loads an element as f32."""
        return self._wide(memref.load(self.buffer, self.at(first, second)), ir.F32Type.get())

    def vector(self, first: Value, second: Value, mask: Value | None = None) -> Value:
        """Loads a vector of contiguous elements as f32, with zeros in the lanes that `mask` excludes."""
        kind = vector_type(self.buffer.type.element_type)
        place = self.at(first, second)
        if mask is None:
            return self._wide(vector.load(kind, self.buffer, place), vector_type())
        return self._wide(vector.maskedload(kind, self.buffer, place, mask, zeros(kind)), vector_type())

    def _wide(self, value: Value, kind: ir.Type) -> Value:
        return value if value.type == kind else arith.extf(kind, value)

    @property
    def sizes(self) -> tuple[Extent, Extent]:
        """The sizes along the two loops."""
        first, second = (_extent(self.buffer, d) for d in self.order)
        return first, second

    @property
    def numbers(self) -> tuple[int | None, int | None]:
        """The sizes that are numbers; unlike `sizes`, this builds no op for the others."""
        kind = self.buffer.type
        first, second = (None if kind.is_dynamic_dim(d) else kind.shape[d] for d in self.order)
        return first, second

    def runs(self, along: int) -> bool:
        """Whether elements along the first or second loop (0 or 1) are contiguous."""
        _, strides = memref_shape(self.buffer.type)
        return self.order[along] == 1 and strides[1] == 1


@dataclass(frozen=True)
class Product:
    """c[m, n] += a[m, k] * b[k, n]"""

    a: Matrix
    b: Matrix
    c: Matrix
    m: Extent
    n: Extent
    k: Extent
    tile: Panels
    #: memory for a packed panel: a block of K x full vectors along N; None if `b` is packed already
    memory: Value | None
    #: whether c is still undefined, so that the first sums are stored instead of added
    fresh: bool


@dataclass(frozen=True)
class Panel:
    """A block of `depth` x `width` elements of a product's right factor, from (start, column) on. If `left` is given,
    only so many of the columns exist. `is_first` says that the block is known to be the first along K."""

    product: Product
    start: Value
    depth: Extent
    column: Value
    width: int
    left: Value | None
    is_first: bool

    @property
    def vectors(self) -> int:
        return vectors_of(self.width)

    def write(self) -> None:
        """Packs the panel, multiplies all rows of the left factor by it, and adds the products to the result."""
        along = self._lanes()
        if self.product.memory is not None:
            self._pack(along)
        ahead = self._ahead()
        blocks(
            self.product.m, self.product.tile.rows, lambda m, rows, left: self._multiply(m, rows, left, along, ahead)
        )

    def _lanes(self) -> list[_Lanes]:
        """The panel's vectors of columns. The last one may be masked."""
        found = []
        for at in range(0, self.width, LANES):
            mask = None
            if self.left is not None:
                mask = first_lanes(arith.subi(self.left, index_value(at)))
            elif self.width - at < LANES:
                mask = first_lanes(self.width - at)
            found.append(_Lanes(arith.addi(self.column, index_value(at)), mask))
        return found

    def _multiply(
        self,
        first: Value,
        count: int,
        left: Value | None,
        along: Sequence[_Lanes],
        ahead: Callable[[Value, Value], None],
    ) -> None:
        """Computes the sums of `count` rows, which stay in registers along the block of K. If `left` is given, only so
        many rows exist; the surplus rows repeat the last one and are not stored."""
        a, c, width = self.product.a, self.product.c, len(along)
        inside = [index_value(r) for r in range(count)]
        if left is not None:
            last = arith.subi(left, index_value(1))
            inside = [arith.minui(r, last) for r in inside]
        rows = [arith.addi(first, r) for r in inside]
        one, zero, end = index_value(1), index_value(0), value_of(self.depth)
        sums = scf.ForOp(zero, end, one, [zeros()] * (count * width))
        with ir.InsertionPoint(sums.body):
            k = sums.induction_variable
            ahead(first, k)
            at = arith.addi(self.start, k)
            right = self._row(k, at, along)
            results = []
            for r, row in enumerate(rows):
                factor = vector.broadcast(vector_type(), a.number(row, at))
                before = sums.inner_iter_args[r * width : (r + 1) * width]
                results += [vector.fma(factor, x, total) for x, total in zip(right, before, strict=True)]
            scf.YieldOp(results)

        def each(write: Callable[[_Lanes, Value, Value], None]) -> None:
            for r, row in enumerate(rows):

                def write_row(row: Value = row, r: int = r) -> None:
                    for j, lanes in enumerate(along):
                        write(lanes, sums.results[r * width + j], row)

                where(None if left is None else arith.cmpi(arith.CmpIPredicate.ult, index_value(r), left), write_row)

        def store(lanes: _Lanes, total: Value, row: Value) -> None:
            lanes.store(total, c, row)

        def add(lanes: _Lanes, total: Value, row: Value) -> None:
            lanes.store(arith.addf(lanes.load(c, row), total), c, row)

        if not self.product.fresh:
            each(add)
        elif self.is_first:
            each(store)
        else:
            begins = arith.cmpi(arith.CmpIPredicate.eq, self.start, zero)
            where(begins, lambda: each(store), lambda: each(add))

    def _row(self, k: Value, at: Value, along: Sequence[_Lanes]) -> list[Value]:
        """Loads the vectors of row k of the panel, which is row `at` of the right factor."""
        memory = self.product.memory
        if memory is None:
            return [lanes.load(self.product.b, at) for lanes in along]
        columns = [index_value(j * LANES) for j in range(len(along))]
        depth = self.depth if isinstance(self.depth, int) else self.product.tile.k
        if depth < rows_in_memory(depth, self.width):
            following = arith.addi(k, index_value(_ROWS_FOLLOWING))
            for column in columns:
                memref.prefetch(memory, [following, column], False, 3, True)
        return [vector.load(vector_type(), memory, [k, column]) for column in columns]

    # -- packing ----------------------------------------------------------------------------------
    def _pack(self, along: Sequence[_Lanes]) -> None:
        """memory[k, n] = b[start + k, column + n]. Columns beyond the width are not used."""
        if self.product.b.runs(1):
            loop(0, self.depth, 1, lambda k: self._pack_row(k, along))
            return
        whole = whole_blocks(self.depth, LANES) if self.product.b.runs(0) else 0
        loop(0, whole, LANES, self._pack_square)
        loop(whole, self.depth, 1, self._pack_scattered)

    def _pack_row(self, k: Value, along: Sequence[_Lanes]) -> None:
        at = arith.addi(self.start, k)
        for j, lanes in enumerate(along):
            vector.store(lanes.load(self.product.b, at), self.product.memory, [k, index_value(j * LANES)])

    def _pack_square(self, k: Value) -> None:
        blocks(self.width, LANES, lambda n, count, _: self._transpose(k, n, count))

    def _transpose(self, k: Value, n: Value, count: int) -> None:
        """Packs 16 elements along K of each of `count` columns, by a transpose in registers."""
        b, at = self.product.b, arith.addi(self.start, k)
        rows = []
        for i in range(LANES):
            inside = arith.addi(n, index_value(i))
            if self.left is not None:
                inside = arith.minui(inside, arith.subi(self.left, index_value(1)))
            rows.append(b.vector(at, arith.addi(self.column, inside)) if i < count else zeros())
        for i, row in enumerate(transposed(rows)):
            vector.store(row, self.product.memory, [arith.addi(k, index_value(i)), n])

    def _pack_scattered(self, k: Value) -> None:
        b, at, memory = self.product.b, arith.addi(self.start, k), self.product.memory
        cut = range(self.vectors) if self.left is not None else range(self.width // LANES, self.vectors)
        for j in cut:
            vector.store(zeros(), memory, [k, index_value(j * LANES)])

        def copy(n: Value) -> None:
            memref.store(b.number(at, arith.addi(self.column, n)), memory, [k, n])

        loop(0, self.width if self.left is None else self.left, 1, copy)

    # -- the next panel ---------------------------------------------------------------------------
    def _ahead(self) -> Callable[[Value, Value], None]:
        """A function that prefetches a part of the next panel. It takes the first row of the left factor's block and
        the row k of this panel that are being multiplied."""
        b, m, tile = self.product.b, self.product.m, self.product.tile
        count = -(-(m if isinstance(m, int) else tile.m) // tile.rows)
        view = maker(b.buffer, memref.SubViewOp)
        if view is None:
            return _nothing
        source, starts = view.operands[0], starts_of(view)
        if self.product.memory is None:
            return self._ask_packed if count < _FEWEST_BLOCKS else self._next_packed(view)
        if len(starts) != 2:
            return _nothing
        # Over all blocks of rows, each cache line is prefetched at least once. A line along K is prefetched in 16 steps
        # of K or, if that makes too many prefetches per step, in only one of the 16: its turn.
        columns = range(0, self.width, LANES) if b.runs(1) else range(self.width)
        in_turn = len(columns) > count * _MOST_LINES
        if in_turn:
            columns = range(0, self.width, LANES)
        start, column = self._next()
        start, column = (arith.addi(x, starts[d]) for x, d in zip((start, column), b.order, strict=True))
        whole = Matrix(source, b.order)
        last = arith.subi(value_of(whole.sizes[1]), index_value(1))

        def ask(first: Value, k: Value) -> None:
            block = arith.divui(first, index_value(tile.rows))
            for i in range(-(-len(columns) // count)):
                place = arith.remui(arith.addi(block, index_value(i * count)), index_value(len(columns)))
                inside = arith.muli(place, index_value(columns.step))
                if in_turn:
                    inside = arith.addi(inside, arith.remui(k, index_value(LANES)))
                at = arith.minui(arith.addi(column, inside), last)
                memref.prefetch(source, whole.at(arith.addi(start, k), at), False, 2, True)

        return ask

    def _ask_packed(self, _: Value, k: Value) -> None:
        """Prefetches a row of the same panel, some rows ahead, because few rows are multiplied by the panel."""
        last = arith.subi(value_of(self.product.k), index_value(1))
        ahead = arith.minui(arith.addi(arith.addi(self.start, k), index_value(_ROWS_AHEAD)), last)
        for j in range(self.vectors):
            memref.prefetch(self.product.b.buffer, [ahead, index_value(j * LANES)], False, 3, True)

    def _next_packed(self, view: ir.Operation) -> Callable[[Value, Value], None]:
        """A function that prefetches a cache line of the panel after a packed one. `view` is the packed panel: a [K, N]
        subview of a tensor of panels, which has any number of other dims. The last panel prefetches itself."""
        source, starts = view.operands[0], starts_of(view)
        in_panel = kept_dims(view)
        beside = [d for d in range(len(starts)) if d not in in_panel]
        if not beside:
            return _nothing
        along = beside[-1]  # the dim that tiles walk fastest
        last = arith.subi(value_of(_extent(source, along)), index_value(1))

        def ask(first: Value, k: Value) -> None:
            block = arith.divui(first, index_value(self.product.tile.rows))
            line = arith.muli(arith.remui(block, index_value(self.vectors)), index_value(LANES))
            place = list(starts)
            place[along] = arith.minui(arith.addi(place[along], index_value(1)), last)
            for dim, inside in zip(in_panel, (arith.addi(self.start, k), line), strict=True):
                place[dim] = arith.addi(place[dim], inside)
            memref.prefetch(source, place, False, 2, True)

        return ask

    def _next(self) -> tuple[Value, Value]:
        """The start of the next panel in K and N. After a tile's last panel, this is the next tile's first panel."""
        product = self.product
        columns = value_of(product.n)
        column = arith.addi(self.column, index_value(self.width))
        is_last = arith.cmpi(arith.CmpIPredicate.uge, column, columns)
        start = arith.select(is_last, arith.addi(self.start, value_of(self.depth)), self.start)
        is_over = arith.cmpi(arith.CmpIPredicate.uge, start, value_of(product.k))
        zero = index_value(0)
        again = arith.select(is_over, columns, zero)
        return arith.select(is_over, zero, start), arith.select(is_last, again, column)


@dataclass(frozen=True)
class _Lanes:
    """A vector of a tile's columns, from `column` on. If there is a mask, only its lanes exist."""

    column: Value
    mask: Value | None

    def load(self, matrix: Matrix, row: Value) -> Value:
        return matrix.vector(row, self.column, self.mask)

    def store(self, value: Value, matrix: Matrix, row: Value) -> None:
        place = matrix.at(row, self.column)
        if self.mask is None:
            vector.store(value, matrix.buffer, place)
        else:
            vector.maskedstore(matrix.buffer, place, self.mask, value)


def vectors_of(width: int) -> int:
    """The number of vectors that hold `width` columns."""
    return -(-width // LANES)


def rows_in_memory(depth: int, width: int) -> int:
    """Rows of the memory for a packed panel, plus rows for prefetches past the end if the panel does not stay in L1."""
    return depth if depth * vectors_of(width) * LANES <= _IN_L1 else depth + _ROWS_FOLLOWING


def _extent(buffer: Value, dim: int) -> Extent:
    """The size of a buffer along a dim."""
    shape = buffer.type
    return memref.dim(buffer, index_value(dim)) if shape.is_dynamic_dim(dim) else shape.shape[dim]


def _nothing(first: Value, k: Value) -> None:
    """Prefetches nothing."""
