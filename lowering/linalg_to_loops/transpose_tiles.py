"""Transposes tiles in registers, 16 x 16 elements at a time.

linalg.transpose ins(%x : memref<128x32xf32>)        scf.for %i = 0 to 128 step 16 {
  outs(%y : memref<32x128xf32>)                  →     scf.for %j = 0 to 32 step 16 {
  permutation = [1, 0]                                   16 times vector.load %x[%i + r, %j]
                                                         64 times vector.shuffle
                                                         16 times vector.store %y[%j + c, %i] } }

A loop would gather 16 elements from 16 lines, one after the other: adding a transposed matrix took 1.3 times as long.
Where a side is no multiple of 16 the last squares reach back into those before them; one that is shorter is masked.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, memref, scf, vector
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.types import index_value, memref_shape
from cuesta.lowering.linalg_to_loops.transposed import transposed
from cuesta.passes.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: Bytes of the widest vector, and its elements, at most: 16 of each of 16 rows fill half of the registers.
_BYTES, _LANES = 64, 16


@register_pass("transpose-tiles")
@dataclass(frozen=True)
class TransposeTiles(Pass):
    """Makes transpositions of buffers loops around squares in registers."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for op in [o for o in walk(nested.operation) if o.name == "linalg.transpose"]:
                    with ir.InsertionPoint(op), op.location:
                        _expand(op)


def _expand(op: ir.Operation) -> None:
    """Writes the loops for a transposition. For buffers that vectors do not fit, it is one of make-loops'."""
    source, target = op.operands
    if not _fits(source) or not _fits(target):
        return
    found = _Transposition.of(source, target, list(op.attributes["permutation"]))
    sizes = [memref.dim(target, index_value(d)) for d in found.across if target.type.is_dynamic_dim(d)]
    if sizes:
        is_long = [arith.cmpi(arith.CmpIPredicate.uge, size, index_value(found.lanes)) for size in sizes]
        choice = scf.IfOp(functools.reduce(arith.andi, is_long), has_else=True)
        with ir.InsertionPoint(choice.else_block):
            end = scf.YieldOp([])
        op.clone(ir.InsertionPoint(end))
        with ir.InsertionPoint(choice.then_block):
            found.write()
            scf.YieldOp([])
    else:
        found.write()
    op.erase()


def _fits(buffer: Value) -> bool:
    """Whether elements of the last dim lie together, and vectors of them take the same memory."""
    kind = ir.MemRefType(buffer.type)
    _, strides = memref_shape(buffer.type)
    element = kind.element_type
    whole_bytes = isinstance(element, ir.FloatType) or (isinstance(element, ir.IntegerType) and element.width >= 8)
    return whole_bytes and strides[-1] == 1


def _is_memory(buffer: Value) -> bool:
    """Whether a buffer is a view of an argument of the kernel."""
    while not isinstance(buffer.owner, ir.Block):
        if buffer.owner.name != "memref.subview":
            return False
        buffer = buffer.owner.operands[0]
    return True


@dataclass(frozen=True)
class _Transposition:
    """target[j, …, i] = source[i, …, j]: loops are numbered as dims of the target are."""

    source: Value
    target: Value
    #: dim of the target → dim of the source
    permutation: list[int]
    lanes: int

    @staticmethod
    def of(source: Value, target: Value, permutation: list[int]) -> _Transposition:
        element = ir.MemRefType(source.type).element_type
        return _Transposition(source, target, permutation, min(_BYTES * 8 // element.width, _LANES))

    @property
    def across(self) -> tuple[int, int]:
        """The dim of the target that is the source's last, and the target's last."""
        last = len(self.permutation) - 1
        return self.permutation.index(last), last

    def write(self) -> None:
        """The loops, at the current insertion point: over all dims but the last ones of both buffers, then squares over
        those. A size of those that only the call tells is as long as a vector, or longer."""
        outer = [d for d in range(len(self.permutation)) if d not in self.across]
        self._over(outer, [index_value(0)] * len(self.permutation))

    def _over(self, outer: list[int], place: list[Value]) -> None:
        if not outer:
            # Into memory, a few of its rows from their beginnings to their ends: of more at a time each would lose its
            # place in L1, where rows are a power of two apart. What is on the stack is there anyway.
            j, i = self.across
            first, second = (j, i) if _is_memory(self.target) else (i, j)
            self._blocks(
                first,
                lambda at, count: self._blocks(
                    second, lambda then, other: self._square_at(place, {first: (at, count), second: (then, other)})
                ),
            )
            return
        first, *others = outer
        loop = scf.ForOp(index_value(0), memref.dim(self.target, index_value(first)), index_value(1))
        with ir.InsertionPoint(loop.body):
            self._over(others, _put(place, {first: loop.induction_variable}))
            scf.YieldOp([])

    def _blocks(self, dim: int, body: Callable[[Value, int], None]) -> None:
        """Blocks along a dim of the target; `body` takes where one begins and how many elements it has."""
        size, step = memref.dim(self.target, index_value(dim)), index_value(self.lanes)
        count, known = self.lanes, self.target.type.shape[dim]
        if not self.target.type.is_dynamic_dim(dim):
            count = min(count, known)
        loop = scf.ForOp(index_value(0), size, step)
        with ir.InsertionPoint(loop.body):
            last = arith.subi(size, index_value(count))
            body(arith.minui(loop.induction_variable, last), count)
            scf.YieldOp([])

    def _square_at(self, place: list[Value], blocks: dict[int, tuple[Value, int]]) -> None:
        """The square that a block along each dim of `across` makes: where it begins, and how many elements it has."""
        j, i = self.across
        self._square(_put(place, {d: at for d, (at, _) in blocks.items()}), blocks[i][1], blocks[j][1])

    def _square(self, place: list[Value], rows: int, columns: int) -> None:
        """`rows` along the target's last dim and `columns` along the source's, from a place of the target on."""
        j, i = self.across
        mask_of_row, mask_of_column = self._mask(columns), self._mask(rows)
        places = [_put(place, {i: arith.addi(place[i], index_value(r))}) for r in range(rows)]
        read = [self._load(at, mask_of_row) for at in places]
        none = [self._zeros()] * (self.lanes - rows)
        for c, column in enumerate(transposed([*read, *none])[:columns]):
            self._store(column, _put(place, {j: arith.addi(place[j], index_value(c))}), mask_of_column)

    def _mask(self, count: int) -> Value | None:
        """The first elements of a vector; None for all of them."""
        kind = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        return None if count == self.lanes else vector.constant_mask(kind, [count])

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
        return ir.VectorType.get([self.lanes], ir.MemRefType(self.source.type).element_type)

    def _zeros(self) -> Value:
        element = ir.MemRefType(self.source.type).element_type
        zero = ir.FloatAttr.get(element, 0.0) if isinstance(element, ir.FloatType) else ir.IntegerAttr.get(element, 0)
        return vector.broadcast(self._vector(), arith.ConstantOp(element, zero).result)


def _put(place: list[Value], changes: dict[int, Value]) -> list[Value]:
    """A place with other indices along some dims."""
    return [changes.get(d, index) for d, index in enumerate(place)]
