"""Transposes tiles in registers, 16 x 16 elements at a time.

linalg.transpose ins(%x : memref<128x32xf32>)        scf.for %i = 0 to 128 step 16 {
  outs(%y : memref<32x128xf32>)                  →     scf.for %j = 0 to 32 step 16 {
  permutation = [1, 0]                                   16 times vector.load %x[%i + r, %j]
                                                         64 times vector.shuffle
                                                         16 times vector.store %y[%j + c, %i] } }

A plain loop would gather 16 elements from 16 cache lines one by one: adding a transposed matrix took 1.3 times as long.
If a side is no multiple of 16, the last squares overlap the squares before them. A side shorter than 16 is masked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, linalg, memref, scf, vector
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.types import index_value, memref_shape
from cuesta.dialects.upstream_fields import PERMUTATION
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: Bytes of the widest vector, and the most elements of a vector: 16 x 16 elements fill half of the registers.
_BYTES, _LANES = 64, 16


@register_pass("transpose-tiles")
class TransposeTiles(Pass):
    """Lowers transposes of buffers to loops around squares in registers."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for op in [o for o in walk(nested.operation) if o.name == linalg.TransposeOp.OPERATION_NAME]:
                    with ir.InsertionPoint(op), op.location:
                        _expand(op)


def _expand(op: ir.Operation) -> None:
    """Writes the loops for a transpose. If vectors do not fit the buffers, leaves the op to make-loops."""
    source, target = op.operands
    if not fits(source) or not fits(target):
        return
    found = _Transposition.of(source, target, PERMUTATION.of(op))
    found.squares.replace([op], found.square)


def fits(buffer: Value) -> bool:
    """Whether the last dim is contiguous, and a vector has the same layout in memory as its elements."""
    kind = ir.MemRefType(buffer.type)
    _, strides = memref_shape(buffer.type)
    element = kind.element_type
    whole_bytes = isinstance(element, ir.FloatType) or (isinstance(element, ir.IntegerType) and element.width >= 8)
    return whole_bytes and len(strides) > 0 and strides[-1] == 1


def _is_memory(buffer: Value) -> bool:
    """Whether a buffer is a view of an argument of the kernel."""
    while not isinstance(buffer.owner, ir.Block):
        if buffer.owner.name != memref.SubViewOp.OPERATION_NAME:
            return False
        buffer = buffer.owner.operands[0]
    return True


def lanes_of(source: Value) -> int:
    """The elements of a vector of a buffer's type, which is also the count of rows of a square in registers."""
    return min(_BYTES * 8 // ir.MemRefType(source.type).element_type.width, _LANES)


@dataclass(frozen=True)
class Squares:
    """Squares of a buffer along two of its dims."""

    whole: Value
    #: the two dims: that along which the source is contiguous, and the buffer's last dim
    across: tuple[int, int]
    lanes: int
    #: whether the loop along the buffer's rows is the inner one
    along_rows: bool = True

    def over(self, body: Callable[[list[Value], int, int], None]) -> None:
        """Writes loops at the current insertion point, over all other dims and then over the squares. `body` takes the
        first index of a square, and the square's sizes along the last dim and along the other one. Symbolic sizes of
        these two dims must be at least a vector."""
        rank = len(self.whole.type.shape)
        outer = [d for d in range(rank) if d not in self.across]
        self._over(outer, [index_value(0)] * rank, body)

    def replace(self, ops: Sequence[ir.Operation], body: Callable[[list[Value], int, int], None]) -> None:
        """Replaces `ops` by the loops, at the current insertion point. If sizes are symbolic, `ops` stay as the else
        branch, for sizes shorter than a vector."""
        sizes = [memref.dim(self.whole, index_value(d)) for d in self.across if self.whole.type.is_dynamic_dim(d)]
        if sizes:
            lanes = index_value(self.lanes)
            is_long = [arith.cmpi(arith.CmpIPredicate.uge, size, lanes) for size in sizes]
            choice = scf.IfOp(functools.reduce(arith.andi, is_long), has_else=True)
            with ir.InsertionPoint(choice.else_block):
                end = scf.YieldOp([])
            for op in ops:
                op.clone(ir.InsertionPoint(end))
            with ir.InsertionPoint(choice.then_block):
                self.over(body)
                scf.YieldOp([])
        else:
            self.over(body)
        for op in reversed(ops):
            op.erase()

    def _over(self, outer: list[int], place: list[Value], body: Callable[[list[Value], int, int], None]) -> None:
        if outer:
            d, *others = outer
            loop = scf.ForOp(index_value(0), memref.dim(self.whole, index_value(d)), index_value(1))
            with ir.InsertionPoint(loop.body):
                self._over(others, put(place, {d: loop.induction_variable}), body)
                scf.YieldOp([])
            return
        j, i = self.across
        first, second = (j, i) if self.along_rows else (i, j)

        def square(blocks: dict[int, tuple[Value, int]]) -> None:
            body(put(place, {d: at for d, (at, _) in blocks.items()}), blocks[i][1], blocks[j][1])

        self._blocks(
            first,
            lambda at, count: self._blocks(
                second, lambda then, other: square({first: (at, count), second: (then, other)})
            ),
        )

    def _blocks(self, dim: int, body: Callable[[Value, int], None]) -> None:
        """Writes a loop over blocks along a dim. `body` takes a block's start and size."""
        size, step = memref.dim(self.whole, index_value(dim)), index_value(self.lanes)
        count, known = self.lanes, self.whole.type.shape[dim]
        if not self.whole.type.is_dynamic_dim(dim):
            count = min(count, known)
        loop = scf.ForOp(index_value(0), size, step)
        with ir.InsertionPoint(loop.body):
            last = arith.subi(size, index_value(count))
            body(arith.minui(loop.induction_variable, last), count)
            scf.YieldOp([])


@dataclass(frozen=True)
class _Transposition:
    """target[j, …, i] = source[i, …, j]. Loops have the numbers of the target's dims."""

    source: Value
    target: Value
    #: dim of the target → dim of the source
    permutation: list[int]
    squares: Squares

    @staticmethod
    def of(source: Value, target: Value, permutation: list[int]) -> _Transposition:
        last = len(permutation) - 1
        # A target in memory is written a few whole rows at a time. If rows are a power of two apart, writing more rows
        # at a time would evict their lines from L1. A target on the stack stays in L1 anyway.
        across = (permutation.index(last), last)
        squares = Squares(target, across, lanes_of(source), along_rows=_is_memory(target))
        return _Transposition(source, target, permutation, squares)

    def square(self, place: list[Value], rows: int, columns: int) -> None:
        """Transposes a square: `rows` elements along the target's last dim and `columns` along the source's. `place` is
        the first index in the target."""
        j, i = self.squares.across
        mask_of_row, mask_of_column = self._mask(columns), self._mask(rows)
        places = [put(place, {i: arith.addi(place[i], index_value(r))}) for r in range(rows)]
        read = [self._load(at, mask_of_row) for at in places]
        none = [self._zeros()] * (self.squares.lanes - rows)
        for c, column in enumerate(transposed([*read, *none])[:columns]):
            self._store(column, put(place, {j: arith.addi(place[j], index_value(c))}), mask_of_column)

    def _mask(self, count: int) -> Value | None:
        """The mask of the first `count` lanes; None if these are all lanes."""
        kind = ir.VectorType.get([self.squares.lanes], ir.IntegerType.get_signless(1))
        return None if count == self.squares.lanes else vector.constant_mask(kind, [count])

    def _load(self, place: list[Value], mask: Value | None) -> Value:
        kind = self._vector()
        at = [place[self.permutation.index(d)] for d in range(len(place))]
        if mask is None:
            return vector.load(kind, self.source, at)
        return vector.maskedload(kind, self.source, at, mask, self._zeros())

    def _store(self, value: Value, place: list[Value], mask: Value | None) -> None:
        if mask is None:
            vector.store(value, self.target, place)
        else:
            vector.maskedstore(self.target, place, mask, value)

    def _vector(self) -> ir.Type:
        return ir.VectorType.get([self.squares.lanes], ir.MemRefType(self.source.type).element_type)

    def _zeros(self) -> Value:
        element = ir.MemRefType(self.source.type).element_type
        zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
        return vector.broadcast(self._vector(), arith.ConstantOp(element, zero).result)


def put(place: list[Value], changes: dict[int, Value]) -> list[Value]:
    """`place` with the indices of some dims replaced."""
    return [changes.get(d, index) for d, index in enumerate(place)]
