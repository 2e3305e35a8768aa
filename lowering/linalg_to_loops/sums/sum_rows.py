"""Adds up rows of large matrices in vectors, and asks for the rows behind them: a kernel waits for memory least.

linalg.generic {mulf, addf} ["reduction"]        %sums:4 = scf.for %k = 0 to 1024 step 64 {
  ins(%x : memref<1024xf32>,                       memref.prefetch %w[%row + 4, %k], …        a cache line each
      %row : memref<1024xbf16, …>)          →      %v = extf (vector.load %w[%row, %k]) …     4 vectors
  outs(%sum : memref<f32>)                         fma %x[%k], %v, … }
                                                 %sum += vector.reduction <add> (%sums#0 + …)

A processor asks for the memory behind a row of narrow elements too late: it stops at the end of each page, and asks for
a few lines only. With one thread of an EPYC (Zen 5) a loop in C reads bf16 at 0.75 of the memory's rate without, and at
0.95 with rows that are asked for 8 KB before they are needed.

What does not run along the vectors is a number, computed once. A row of groups, such as those of a quantised weight, is
added up group by group: what a group's terms have in common, such as its scale, its sum is multiplied by.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref, vector
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims, projection
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import index_value, memref_shape
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL, REDUCTION
from cuesta.lowering.linalg_to_loops.sums.terms import is_dense, is_inside, is_shared, moving_dims, term_of
from cuesta.lowering.linalg_to_loops.vector_loops import AHEAD, LANES, LINE, first_lanes, loop, scratch, zeros
from cuesta.lowering.linalg_to_loops.views import kept_dims, starts_of
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: The fewest bytes of a matrix that is read from memory, and the fewest elements of a row: the sum of a shorter one
#: takes 1.3 of the time (of 32 or 64 elements of bf16).
_LARGE, _LONG = 1 << 16, 256
#: The most elements of a group along a row.
_MOST_LANES = 256
#: The most vectors of sums.
_VECTORS = 4
#: Bits of the widest elements that are asked for: a decoding step of f32 took 1.13 of the time with prefetches, one of
#: bf16 0.94, one of int8 0.87 (an EPYC of Zen 5).
_NARROW = 16


@register_pass("sum-rows")
class SumRows(Pass):
    """Lowers sums along the rows of large matrices to loops of vectors with prefetches."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        for op in [op for op in walk(function.operation) if is_generic(op)]:
                            row = Row.of(op)
                            if row is not None:
                                row.copy_operands(function.regions[0].blocks[0])
                                with ir.InsertionPoint(op), op.location:
                                    row.write()
                                op.erase()


@dataclass(frozen=True)
class Row:
    """A generic that adds up terms along a row, which may have several dims, to one number."""

    op: ir.Operation
    #: the sizes of the loops
    sizes: list[int]
    #: for each operand, the loop of each of its dims
    dims: list[tuple[int, ...]]
    #: the number that is added to the sum, of the generic's body
    term: Value
    #: the operands that come from memory
    streams: list[int]
    #: the number of an operand → a copy of it, contiguous and perhaps widened
    copies: dict[int, Value] = field(default_factory=dict)

    @staticmethod
    def of(op: ir.Operation) -> Row | None:
        """The row that a generic adds up; None for any other op."""
        if len(op.results) or len(op.operands) < 2 or {*ITERATOR_TYPES.of(op)} != {REDUCTION}:
            return None
        dims = operand_dims(op)
        term, sizes = term_of(op), _sizes(op, dims)
        if term is None or sizes is None or sizes[-1] < LANES or math.prod(sizes) < _LONG or dims[-1]:
            return None
        along = len(sizes) - 1
        inputs = list(zip(op.operands, dims, strict=True))[:-1]
        if not all(_fits(x, own, along) or is_shared(x) for x, own in inputs):
            return None
        streams = [i for i, (x, own) in enumerate(inputs) if along in own and _fits(x, own, along) and _is_stream(x)]
        return Row(op, sizes, dims, term, streams) if streams else None

    @property
    def has_groups(self) -> bool:
        """Whether a row consists of groups that fill vectors, without gaps, such as those of a quantised weight."""
        if len(self.sizes) != 2 or self.sizes[1] % LANES or self.sizes[1] > _MOST_LANES:
            return False
        return all(self.dims[i] == (0, 1) and is_dense(self.op.operands[i]) for i in self.streams)

    def copy_operands(self, entry: ir.Block) -> None:
        """Copies operands that are the same for all tiles, at the beginning of the function, if they are narrow or not
        contiguous: they are widened once. Narrow numbers of groups are widened before each row."""
        f32, along = ir.F32Type.get(), len(self.sizes) - 1
        for i, (x, dims) in enumerate(list(zip(self.op.operands, self.dims, strict=True))[:-1]):
            uses = list(self.op.regions[0].blocks[0].arguments[i].uses)
            widens = len(uses) == 1 and uses[0].owner.name == arith.ExtFOp.OPERATION_NAME
            widens = widens and uses[0].owner.results[0].type == f32
            is_of_groups = widens and self.has_groups and dims == (0,) and not is_shared(x)
            if not is_of_groups and not (is_shared(x) and (widens or not _fits(x, dims, along))):
                continue
            kind = ir.MemRefType(x.type)
            element = f32 if widens else kind.element_type
            with ir.InsertionPoint.at_block_begin(entry), self.op.location:
                copy = scratch(kind.shape, element)
            with ir.InsertionPoint(self.op) if is_of_groups else ir.InsertionPoint.after(copy.owner), self.op.location:
                maps = ir.ArrayAttr.get([projection(kind.rank, range(kind.rank))] * 2)
                made = linalg.GenericOp([], [x], [copy], maps, ITERATOR_TYPES.write([PARALLEL] * kind.rank))
                block = made.regions[0].blocks.append(kind.element_type, element)
                with ir.InsertionPoint(block):
                    linalg.YieldOp([arith.extf(f32, block.arguments[0]) if widens else block.arguments[0]])
            self.copies[i] = copy

    def write(self) -> None:
        """Writes the loops at the current insertion point."""
        sums = self._groups() if self.has_groups else self._around([], self.sizes)
        f32, kind = ir.F32Type.get(), vector.CombiningKind.ADD
        total = functools.reduce(arith.addf, sums)
        added = vector.reduction(f32, kind, total, fastmath=arith.FastMathFlags.reassoc)
        result = self.op.operands[-1]
        memref.store(arith.addf(memref.load(result, []), added), result, [])

    def _around(self, before: list[Value], left: list[int], sums: Sequence[Value] | None = None) -> list[Value]:
        """The vectors of sums, with the loops over the sizes that are `left` inside those over `before`."""
        width = max(1, min(_VECTORS, self.sizes[-1] // LANES))
        sums = [zeros()] * width if sums is None else sums
        if len(left) > 1:
            return loop(0, left[0], 1, lambda i, *sums: self._around([*before, i], left[1:], sums), sums)
        length, step = left[0], width * LANES

        def vectors(k: Value, *sums: Value) -> list[Value]:
            self._ask([*before, k], step)
            found = []
            for u, total in enumerate(sums):
                at = arith.addi(k, index_value(u * LANES)) if u else k
                found.append(_Terms(self, [*before, at]).added_to(total, self.term))
            return found

        whole = length // step * step
        found = loop(0, whole, step, vectors, sums)
        for k in range(whole, length, LANES):
            lanes = length - k if length - k < LANES else None
            found[0] = _Terms(self, [*before, index_value(k)], lanes).added_to(found[0], self.term)
        return found

    def _groups(self) -> list[Value]:
        """The vectors of sums of a row of groups, some of which follow one another in each step."""
        count, length = self.sizes
        term, factor = self.term, None
        product = maker(term, arith.MulFOp)
        if product is not None and is_inside(term, self.op):
            for x, y in (list(product.operands), list(product.operands)[::-1]):
                if self._runs(x) and not self._runs(y):
                    term, factor = x, y

        def add(group: Value, total: Value) -> Value:
            part = total if factor is None else None
            for k in range(0, length, LANES):
                terms = _Terms(self, [group, index_value(k)])
                part = terms.added_to(part, term)
            assert part is not None
            return part if factor is None else vector.fma(part, terms.vector_of(factor), total)

        width = min(_VECTORS, count)

        def some(first: Value, *sums: Value) -> list[Value]:
            self._ask([first, index_value(0)], width * length)
            return [add(arith.addi(first, index_value(i)) if i else first, x) for i, x in enumerate(sums)]

        whole = count // width * width
        sums = loop(0, whole, width, some, [zeros()] * width)
        for group in range(whole, count):
            sums[group - whole] = add(index_value(group), sums[group - whole])
        return sums

    def _runs(self, x: Value) -> bool:
        """Whether a value of the body is different along the innermost loop."""
        if isinstance(x.owner, ir.Block):
            return len(self.sizes) - 1 in self.dims[ir.BlockArgument(x).arg_number]
        return is_inside(x, self.op) and any(self._runs(y) for y in x.owner.operands)

    def _ask(self, at: Sequence[Value], count: int) -> None:
        """Prefetches what lies `AHEAD` bytes behind the next `count` elements of each narrow operand that comes from
        memory. `at` is where the loops are. Behind the last row of a matrix it is the last row again."""
        for i in self.streams:
            x = self.op.operands[i]
            if ir.MemRefType(x.type).element_type.width > _NARROW:
                continue
            view = maker(x, memref.SubViewOp)
            assert view is not None
            source, kept, starts = view.operands[0], kept_dims(view), starts_of(view)
            bits = ir.MemRefType(x.type).element_type.width
            row = math.prod(ir.MemRefType(x.type).shape) * bits // 8
            moving = moving_dims(view)[-1]
            last = index_value(ir.MemRefType(source.type).shape[moving] - 1)
            starts[moving] = arith.minui(arith.addi(starts[moving], index_value(-(-AHEAD // row))), last)
            for dim, loop_of in zip(kept, self.dims[i], strict=True):
                starts[dim] = at[loop_of]
            for place in range(0, count, max(1, LINE * 8 // bits)):
                inside = arith.addi(starts[-1], index_value(place)) if place else starts[-1]
                memref.prefetch(source, [*starts[:-1], inside], False, 3, True)


@dataclass
class _Terms:
    """Computes a vector of terms at one place of a row, each op once; only `lanes` of it if they are given."""

    row: Row
    at: Sequence[Value]
    lanes: int | None = None
    #: a value of the body → the number or vector
    found: dict[Value, Value] = field(default_factory=dict)

    def added_to(self, total: Value | None, term: Value) -> Value:
        """A vector of sums, or None for zeros, with a term added: the products of a sum one by one, each by one
        instruction."""
        if self.lanes is not None:
            value = arith.select(first_lanes(self.lanes), self.vector_of(term), zeros())
            return value if total is None else arith.addf(total, value)
        both = maker(term, arith.AddFOp) if is_inside(term, self.row.op) else None
        if both is not None and sum(1 for _ in term.uses) == 1:
            x, y = both.operands
            return self.added_to(self.added_to(total, x), y)
        product = maker(term, arith.MulFOp) if is_inside(term, self.row.op) else None
        if product is None or total is None:
            value = self.vector_of(term)
            return value if total is None else arith.addf(total, value)
        x, y = (self.vector_of(x) for x in product.operands)
        return vector.fma(x, y, total)

    def vector_of(self, x: Value) -> Value:
        """A value of the body as a vector."""
        value = self._value(x)
        if isinstance(value.type, ir.VectorType):
            return value
        return vector.broadcast(ir.VectorType.get([LANES], value.type), value)

    def _value(self, x: Value) -> Value:
        """A value of the body: a vector if it runs along the row, else a number."""
        if x not in self.found:
            self.found[x] = self._made(x)
        return self.found[x]

    def _made(self, x: Value) -> Value:
        row = self.row
        if isinstance(x.owner, ir.Block):
            number = ir.BlockArgument(x).arg_number
            return self._load(number, row.copies.get(number, row.op.operands[number]))
        if not is_inside(x, row.op):
            return x
        if len(x.owner.operands) == 1 and isinstance((y := x.owner.operands[0]).owner, ir.Block):
            copy = row.copies.get(number := ir.BlockArgument(y).arg_number)
            if copy is not None and ir.MemRefType(copy.type).element_type == x.type:
                return self._load(number, copy)
        operands = [self._value(y) for y in x.owner.operands]
        if not any(isinstance(y.type, ir.VectorType) for y in operands):
            return repeat_op(x.owner, operands, x.type).results[0]
        kind = ir.VectorType.get([LANES], x.type)
        return repeat_op(x.owner, [self.vector_of(y) for y in x.owner.operands], kind).results[0]

    def _load(self, number: int, buffer: Value) -> Value:
        """Loads an element of an operand, or a vector of them, from the operand's memory or from a copy."""
        dims = self.row.dims[number]
        at = [self.at[d] for d in dims]
        if len(self.row.sizes) - 1 not in dims:
            return memref.load(buffer, at)
        kind = ir.VectorType.get([LANES], ir.MemRefType(buffer.type).element_type)
        if self.lanes is None:
            return vector.load(kind, buffer, at)
        return vector.maskedload(kind, buffer, at, first_lanes(self.lanes), _nothing(kind))


def _sizes(op: ir.Operation, dims: Sequence[tuple[int, ...]]) -> list[int] | None:
    """The sizes of a generic's loops; None if one is symbolic."""
    found: dict[int, int] = {}
    for x, own in zip(op.operands, dims, strict=True):
        if not isinstance(x.type, ir.MemRefType) or not ir.MemRefType(x.type).has_static_shape:
            return None
        found |= dict(zip(own, ir.MemRefType(x.type).shape, strict=True))
    return [found[d] for d in sorted(found)]


def _fits(x: Value, dims: Sequence[int], along: int) -> bool:
    """Whether an operand is contiguous along the innermost loop, or does not walk it."""
    if along not in dims:
        return True
    _, strides = memref_shape(x.type)
    return dims[-1] == along and strides[-1] == 1


def _is_stream(x: Value) -> bool:
    """Whether an operand is a tile's part of a matrix that is too large for the next cache, and is read only once: a
    norm, which reads its row again, takes up to 1.3 of the time with these loops where the matrix is in a cache."""
    view = maker(x, memref.SubViewOp)
    if view is None or sum(1 for _ in x.uses) != 1:
        return False
    source = ir.MemRefType(view.operands[0].type)
    if not source.has_static_shape or not (moving := moving_dims(view)):
        return False
    is_large = math.prod(source.shape) * source.element_type.width >= 8 * _LARGE
    return is_large and moving[-1] not in kept_dims(view) and kept_dims(view)[-1] == source.rank - 1


def _nothing(kind: ir.Type) -> Value:
    """A vector of zeros of floats or integers."""
    element = ir.VectorType(kind).element_type
    is_integer = isinstance(element, ir.IntegerType)
    zero = ir.IntegerAttr.get(element, 0) if is_integer else ir.FloatAttr.get(element, 0.0)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result
