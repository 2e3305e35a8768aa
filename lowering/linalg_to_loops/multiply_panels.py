"""Matrix products of f32 on a CPU: a panel of the right factor is packed, and registers hold blocks of the sums.

linalg.generic {mulf, addf}                     %panel = memref.alloca() : memref<768x48xf32>
  ins(%a : memref<256x768xf32>,                 %panel[k, n] = %b[n, k]                16 x 16 at a time, in registers
      %b : memref<48x768xf32>)             →    scf.for %i = 0 to 256 step 8 {
  outs(%c : memref<256x48xf32>)                   %sums = load %c                      8 x 3 vectors
  {cuesta.product_tile = "256x48x768 by 8x48"}        scf.for %k { 24 times vector.fma }
                                                  store %sums, %c }

8 x 48 sums take 24 of 32 registers, and 24 multiplications wait for 11 loads. While a panel is multiplied the next one
is prefetched, as weights are in no cache. Sums of blocks of K are added up: as exact as MKL's, which does the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref, scf, vector
from cuesta.dialects import walk
from cuesta.dialects.affine_maps import dims_of, projection
from cuesta.dialects.kernel_module import body_ops, kernel_modules
from cuesta.dialects.product import TILE, Panels, roles_of
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.passes.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: f32 elements of a vector.
LANES = 16
#: Blocks of rows from which on a panel is multiplied for long enough to ask for the next one meanwhile.
_FEWEST_BLOCKS = 3
#: Rows of a packed panel that are asked for ahead where few rows are multiplied by it.
_ROWS_AHEAD = 32
#: Lines that are asked for in each pass, at most: it loads 11 times in 12 cycles, which have room for 24.
_MOST_LINES = 4


@register_pass("multiply-panels")
@dataclass(frozen=True)
class MultiplyPanels(Pass):
    """Makes matrix products of tiles loops around register blocks."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        _multiply(function)


def _multiply(function: func.FuncOp) -> None:
    generics = [op for op in walk(function.operation) if op.name == "linalg.generic"]
    for op in generics:
        if TILE in op.attributes and _is_plain(op):
            with ir.InsertionPoint(op), op.location:
                _Product.of(op, function.regions[0].blocks[0]).write()
            op.erase()


def _is_plain(op: ir.Operation) -> bool:
    """Whether a generic multiplies matrices of f32 and sums up, and does nothing else."""
    kinds = {str(ir.MemRefType(v.type).element_type) for v in op.operands}
    names = [inner.name for inner in body_ops(op)]
    matrices = all(len(dims_of(m.value)) == 2 for m in op.attributes["indexing_maps"])
    return kinds == {"f32"} and names == ["arith.mulf", "arith.addf", "linalg.yield"] and matrices


@dataclass(frozen=True)
class _Matrix:
    """A buffer with two of the loops M, N and K; `order` says which dim each is."""

    buffer: Value
    order: tuple[int, int]

    def at(self, first: Value, second: Value) -> list[Value]:
        """The indices of an element, from those along its two loops."""
        given = (first, second)
        return [given[self.order.index(dim)] for dim in range(2)]

    @property
    def sizes(self) -> tuple[int, int]:
        """Elements along its two loops."""
        shape = self.buffer.type.shape
        return shape[self.order[0]], shape[self.order[1]]

    def runs(self, loop: int) -> bool:
        """Whether elements along its first or second loop (0 or 1) lie together."""
        _, strides = memref_shape(self.buffer.type)
        return self.order[loop] == 1 and strides[1] == 1


@dataclass(frozen=True)
class _Product:
    """c[m, n] += a[m, k] * b[k, n]"""

    a: _Matrix
    b: _Matrix
    c: _Matrix
    m: int
    n: int
    k: int
    tile: Panels
    #: where a panel is packed: a block of K, and whole vectors along N; None where it is packed already
    memory: Value | None

    @staticmethod
    def of(op: ir.Operation, entry: ir.Block) -> _Product:
        """What a generic multiplies; a panel's memory is the whole call's, at the beginning of `entry`."""
        at_m, at_n, at_k = roles_of(op)
        tile = Panels.parse(op.attributes[TILE].value)
        maps = [dims_of(m.value) for m in op.attributes["indexing_maps"]]
        loops = ((at_m, at_k), (at_k, at_n), (at_m, at_n))
        a, b, c = (
            _Matrix(buffer, (dims.index(first), dims.index(second)))
            for buffer, dims, (first, second) in zip(op.operands, maps, loops, strict=True)
        )
        (m, k), (_, n) = a.sizes, b.sizes
        memory = None
        if not _is_packed(b, tile):
            with ir.InsertionPoint.at_block_begin(entry):
                kind = ir.MemRefType.get([min(tile.k, k), _vectors(min(tile.columns, n)) * LANES], ir.F32Type.get())
                memory = memref.AllocaOp(kind, [], [], alignment=64).result
        return _Product(a, b, c, m, n, k, tile, memory)

    @property
    def is_packed(self) -> bool:
        """Whether the right factor is one panel, as `freezing` has panels lie: rows of whole vectors, all together."""
        return _is_packed(self.b, self.tile)

    def write(self) -> None:
        """The loops, at the current insertion point. A block of K is done with for all panels before the next: the
        part of the left factor that they read stays in L2."""
        if not self.c.runs(1):
            own = memref.AllocaOp(ir.MemRefType.get([self.m, self.n], ir.F32Type.get()), [], [], alignment=64).result
            beside = _Matrix(own, (0, 1))
            _copy(self.c, beside)
            replace(self, c=beside).write()
            _copy(beside, self.c)
            return
        _blocks(
            self.k,
            self.tile.k,
            lambda k, depth: _blocks(
                self.n, self.tile.columns, lambda n, width: _Panel(self, k, depth, n, width).write()
            ),
        )


@dataclass(frozen=True)
class _Panel:
    """A block of `depth` x `width` elements of a product's right factor, from (start, column) on."""

    product: _Product
    start: Value
    depth: int
    column: Value
    width: int

    @property
    def vectors(self) -> int:
        return _vectors(self.width)

    def write(self) -> None:
        """Packs it, and adds what it is multiplied by to the result."""
        if not self.product.is_packed:
            self._pack()
        ahead = self._ahead()
        _blocks(self.product.m, self.product.tile.rows, lambda m, rows: self._multiply(m, rows, ahead))

    def _multiply(self, first: Value, count: int, ahead: Callable[[Value, Value], None]) -> None:
        """The sums of `count` rows, which stay in registers along the block."""
        a, c, width = self.product.a, self.product.c, self.vectors
        rows = [arith.addi(first, index_value(r)) for r in range(count)]
        one, zero, end = (index_value(n) for n in (1, 0, self.depth))
        loop = scf.ForOp(zero, end, one, [_zeros()] * (count * width))
        with ir.InsertionPoint(loop.body):
            k = loop.induction_variable
            ahead(first, k)
            right = self._row(k)
            results = []
            for r, row in enumerate(rows):
                left = vector.broadcast(_vector(), memref.load(a.buffer, a.at(row, arith.addi(self.start, k))))
                before = loop.inner_iter_args[r * width : (r + 1) * width]
                results += [vector.fma(left, x, total) for x, total in zip(right, before, strict=True)]
            scf.YieldOp(results)
        for (row, j), total in zip(itertools.product(rows, range(width)), loop.results, strict=True):
            self._store(arith.addf(self._load(c, row, j), total), c, row, j)

    def _row(self, k: Value) -> list[Value]:
        """The vectors of a row of the panel."""
        if self.product.is_packed:
            return [self._load(self.product.b, arith.addi(self.start, k), j) for j in range(self.vectors)]
        columns = [index_value(j * LANES) for j in range(self.vectors)]
        return [vector.load(_vector(), self.product.memory, [k, column]) for column in columns]

    def _pack(self) -> None:
        """memory[k, n] = b[start + k, column + n]; beyond the width columns are zeros."""
        if self.product.b.runs(1):
            _loop(0, self.depth, 1, self._pack_row)
            return
        whole = self.depth // LANES * LANES if self.product.b.runs(0) else 0
        _loop(0, whole, LANES, self._pack_square)
        _loop(whole, self.depth, 1, self._pack_scattered)

    def _pack_row(self, k: Value) -> None:
        for j in range(self.vectors):
            row = self._load(self.product.b, arith.addi(self.start, k), j)
            vector.store(row, self.product.memory, [k, index_value(j * LANES)])

    def _pack_square(self, k: Value) -> None:
        _blocks(self.width, LANES, lambda n, count: self._transpose(k, n, count))

    def _transpose(self, k: Value, n: Value, count: int) -> None:
        """Packs 16 elements along K of each of so many columns."""
        b, at, column = self.product.b, arith.addi(self.start, k), arith.addi(self.column, n)
        rows = [
            vector.load(_vector(), b.buffer, b.at(at, arith.addi(column, index_value(i)))) if i < count else _zeros()
            for i in range(LANES)
        ]
        for i, row in enumerate(transposed(rows)):
            vector.store(row, self.product.memory, [arith.addi(k, index_value(i)), n])

    def _pack_scattered(self, k: Value) -> None:
        b, at, memory = self.product.b, arith.addi(self.start, k), self.product.memory
        if self.width % LANES:
            vector.store(_zeros(), memory, [k, index_value((self.vectors - 1) * LANES)])

        def copy(n: Value) -> None:
            memref.store(memref.load(b.buffer, b.at(at, arith.addi(self.column, n))), memory, [k, n])

        _loop(0, self.width, 1, copy)

    # -- the next panel ---------------------------------------------------------------------------
    def _ahead(self) -> Callable[[Value, Value], None]:
        """What asks for a part of the next panel while rows from the first on are multiplied by row k of this one."""
        b, blocks = self.product.b, self.product.m // self.product.tile.rows
        view = b.buffer.owner
        if isinstance(view, ir.Block) or view.name != "memref.subview":
            return _nothing
        source, starts = view.operands[0], _starts(view)
        if self.product.is_packed:
            if blocks < _FEWEST_BLOCKS:
                return lambda first, k: self._ask_packed(source, starts[0], k)
            return lambda first, k: self._ask_next_packed(source, starts[0], first, k)
        if len(starts) != 2 or blocks < _FEWEST_BLOCKS:
            return _nothing
        start, column = self._next()
        start, column = (arith.addi(x, starts[d]) for x, d in zip((start, column), b.order, strict=True))
        whole = _Matrix(source, b.order)
        _, last = (index_value(size - 1) for size in whole.sizes)
        # Each pass asks for some lines; together they ask for each line once or more.
        columns = range(0, self.width, LANES) if b.runs(1) else range(self.width)
        rounds = -(-len(columns) // blocks)
        if rounds > _MOST_LINES:
            return _nothing
        step = LANES if b.runs(1) else 1

        def ask(first: Value, k: Value) -> None:
            block = arith.divui(first, index_value(self.product.tile.rows))
            for i in range(rounds):
                place = arith.remui(arith.addi(block, index_value(i * blocks)), index_value(len(columns)))
                at = arith.minui(arith.addi(column, arith.muli(place, index_value(step))), last)
                memref.prefetch(source, whole.at(arith.addi(start, k), at), False, 2, True)

        return ask

    def _ask_packed(self, source: Value, panel: Value, k: Value) -> None:
        """Asks for a row of the panel itself, some rows ahead: it is not multiplied for long."""
        last = index_value(self.product.k - 1)
        ahead = arith.minui(arith.addi(arith.addi(self.start, k), index_value(_ROWS_AHEAD)), last)
        for j in range(self.vectors):
            memref.prefetch(source, [panel, ahead, index_value(j * LANES)], False, 3, True)

    def _ask_next_packed(self, source: Value, panel: Value, first: Value, k: Value) -> None:
        """Asks for a line of the panel behind a packed one, at most of the last."""
        last = index_value(source.type.shape[0] - 1)
        following = arith.minui(arith.addi(panel, index_value(1)), last)
        block = arith.divui(first, index_value(self.product.tile.rows))
        line = arith.muli(arith.remui(block, index_value(self.vectors)), index_value(LANES))
        memref.prefetch(source, [following, arith.addi(self.start, k), line], False, 2, True)

    def _next(self) -> tuple[Value, Value]:
        """Where in K and N the panel that follows begins; behind a tile's last one, the next tile's first."""
        product = self.product
        column = arith.addi(self.column, index_value(self.width))
        is_last = arith.cmpi(arith.CmpIPredicate.uge, column, index_value(product.n))
        start = arith.select(is_last, arith.addi(self.start, index_value(self.depth)), self.start)
        is_over = arith.cmpi(arith.CmpIPredicate.uge, start, index_value(product.k))
        zero = index_value(0)
        again = arith.select(is_over, index_value(product.n), zero)
        return arith.select(is_over, zero, start), arith.select(is_last, again, column)

    # -- vectors along N, the last of which may be cut off ----------------------------------------
    def _load(self, matrix: _Matrix, row: Value, j: int) -> Value:
        place = matrix.at(row, arith.addi(self.column, index_value(j * LANES)))
        mask = self._mask(j)
        if mask is None:
            return vector.load(_vector(), matrix.buffer, place)
        return vector.maskedload(_vector(), matrix.buffer, place, mask, _zeros())

    def _store(self, value: Value, matrix: _Matrix, row: Value, j: int) -> None:
        place = matrix.at(row, arith.addi(self.column, index_value(j * LANES)))
        mask = self._mask(j)
        if mask is None:
            vector.store(value, matrix.buffer, place)
        else:
            vector.maskedstore(matrix.buffer, place, mask, value)

    def _mask(self, j: int) -> Value | None:
        left = self.width - j * LANES
        if left >= LANES:
            return None
        return vector.constant_mask(ir.VectorType.get([LANES], ir.IntegerType.get_signless(1)), [left])


def _is_packed(b: _Matrix, tile: Panels) -> bool:
    _, n = b.sizes
    _, strides = memref_shape(b.buffer.type)
    return b.runs(1) and n == tile.columns == strides[0] and n % LANES == 0


def _vectors(width: int) -> int:
    """Vectors that so many columns take."""
    return -(-width // LANES)


def _starts(view: ir.Operation) -> list[Value]:
    """The offset of a subview along each dim of its source."""
    static = list(ir.DenseI64ArrayAttr(view.attributes["static_offsets"]))
    dynamic = iter(list(view.operands)[1:])
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    return [next(dynamic) if offset == marker else index_value(offset) for offset in static]


def _blocks(size: int, step: int, body: Callable[[Value, int], object]) -> None:
    """A loop over blocks, each from a value on and so long; what is left over of them is one behind it."""
    whole = size // step * step
    _loop(0, whole, step, lambda at: body(at, step))
    if whole < size:
        body(index_value(whole), size - whole)


def _nothing(first: Value, k: Value) -> None:
    """Asks for nothing."""


def _copy(source: _Matrix, target: _Matrix) -> None:
    """Copies a matrix into one whose dims may be in another order."""
    maps = ir.ArrayAttr.get([projection(2, [x.order.index(d) for d in range(2)]) for x in (source, target)])
    kinds = ir.ArrayAttr.get([ir.Attribute.parse("#linalg.iterator_type<parallel>")] * 2)
    op = linalg.GenericOp([], [source.buffer], [target.buffer], maps, kinds)
    block = op.regions[0].blocks.append(ir.F32Type.get(), ir.F32Type.get())
    with ir.InsertionPoint(block):
        linalg.YieldOp([block.arguments[0]])


def _loop(first: int, end: int, step: int, body: Callable[[Value], object]) -> None:
    """A loop; none where it would not run, and one pass of it as it is."""
    if first >= end:
        return
    if first + step >= end:
        body(index_value(first))
        return
    loop = scf.ForOp(index_value(first), index_value(end), index_value(step))
    with ir.InsertionPoint(loop.body):
        body(loop.induction_variable)
        scf.YieldOp([])


def _vector() -> ir.Type:
    return ir.VectorType.get([LANES], ir.F32Type.get())


def _zeros() -> Value:
    return arith.ConstantOp(_vector(), ir.DenseElementsAttr.get_splat(_vector(), ir.FloatAttr.get_f32(0.0))).result
