"""Adds up rows of large matrices in vectors, and asks for the rows behind them: a kernel waits for memory least.

linalg.generic {mulf, addf} ["reduction"]        %sums:4 = scf.for %k = 0 to 1024 step 64 {
  ins(%x : memref<1024xf32>,                       memref.prefetch %w[%row + 4, %k], …        a cache line each
      %row : memref<1024xbf16, …>)          →      %v = extf (vector.load %w[%row, %k]) …     4 vectors
  outs(%sum : memref<f32>)                         fma %x[%k], %v, … }
                                                 %sum += vector.reduction <add> (%sums#0 + …)

A processor asks for the memory behind a row too late: it stops at the end of each page, and asks for a few lines only.
With one thread of an EPYC (Zen 5) a row of bf16 comes at 0.75 of the memory's rate without, and at 0.95 with rows that
are asked for 8 KB before they are needed.

What does not run along the vectors (the scale of a row) is computed once for all of them. Several sums of one row (the
rows of a left factor) share what they read of it.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref, vector
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims, projection
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.kernel_module import body_ops, kernel_modules
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import index_value, memref_shape
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL, REDUCTION
from cuesta.lowering.linalg_to_loops.vector_loops import LANES, first_lanes, loop
from cuesta.lowering.linalg_to_loops.views import kept_dims, starts_of
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: The fewest bytes of a matrix that is read from memory, and the fewest elements of a row.
_LARGE, _LONG = 1 << 16, 32
#: The most sums of a generic, and the most vectors of sums in registers.
_MOST_SUMS, _REGISTERS = 16, 16
#: The most elements of an operand that is copied once for all rows, and of a group along a row.
_MOST_COPIED, _MOST_LANES = 1 << 16, 256
#: The most vectors of a step along a row.
_VECTORS = 4
#: Bytes between what is read and what is asked for, and those of a cache line.
_AHEAD, _LINE = 8192, 64
#: Ops that do to vectors what they do to numbers.
_ON_VECTORS = ("arith.",)


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
    """A generic that adds up products along a row."""

    op: ir.Operation
    #: the sizes of the loops
    sizes: list[int]
    #: for each operand, the loop of each of its dims
    dims: list[tuple[int, ...]]
    #: the number that is added to the sum, of the generic's body
    term: Value
    #: the loops over sums
    sums: list[int]
    #: the operands that come from memory
    streams: list[int]
    #: the number of an operand → a copy of it, contiguous and perhaps widened
    copies: dict[int, Value] = field(default_factory=dict)

    @staticmethod
    def of(op: ir.Operation) -> Row | None:
        """The row that a generic adds up; None for any other op."""
        if len(op.results) or len(op.operands) < 2:
            return None
        kinds, dims = ITERATOR_TYPES.of(op), operand_dims(op)
        term, sizes = _term(op), _sizes(op, dims)
        if term is None or sizes is None or not kinds or kinds[-1] != REDUCTION or sizes[-1] < _LANES_LEAST:
            return None
        sums = [d for d, kind in enumerate(kinds) if kind == PARALLEL]
        along = len(kinds) - 1
        if sums != list(range(len(sums))) or list(dims[-1]) != sums:
            return None
        if not all(_fits(x, d, along) or _is_shared(x) for x, d in zip(op.operands, dims, strict=True)):
            return None
        inputs = list(zip(op.operands, dims, strict=True))[:-1]
        streams = [i for i, (x, d) in enumerate(inputs) if along in d and _fits(x, d, along) and _is_stream(x)]
        row = Row(op, sizes, dims, term, sums, streams)
        if any(set(dims[i]) & set(sums) for i in streams):
            return None
        reduced = math.prod(sizes[len(sums) :])
        return row if streams and math.prod(sizes[: len(sums)]) <= _MOST_SUMS and reduced >= _LONG else None

    @property
    def has_groups(self) -> bool:
        """Whether a row consists of groups that fill vectors, such as those of a quantised weight."""
        if self.sums or len(self.sizes) != 2 or self.sizes[1] % LANES or self.sizes[1] > _MOST_LANES:
            return False
        streams = [i for i in self.streams if 1 in self.dims[i]]
        return all(self.dims[i] == (0, 1) and _is_dense(self.op.operands[i], 1) for i in streams)

    def copy_operands(self, entry: ir.Block) -> None:
        """Copies operands that are the same for all tiles, at the beginning of the function, if they are narrow or not
        contiguous: they are widened once. Narrow numbers of groups are widened before each row."""
        f32, along = ir.F32Type.get(), len(self.sizes) - 1
        for i, (x, dims) in enumerate(list(zip(self.op.operands, self.dims, strict=True))[:-1]):
            uses = list(self.op.regions[0].blocks[0].arguments[i].uses)
            widens = len(uses) == 1 and uses[0].owner.name == arith.ExtFOp.OPERATION_NAME
            widens = widens and uses[0].owner.results[0].type == f32
            is_of_groups = widens and self.has_groups and dims == (0,) and not _is_shared(x)
            if not is_of_groups and not (_is_shared(x) and (widens or not _fits(x, dims, along))):
                continue
            kind = ir.MemRefType(x.type)
            element = f32 if widens else kind.element_type
            with ir.InsertionPoint.at_block_begin(entry), self.op.location:
                copy = memref.AllocaOp(ir.MemRefType.get(kind.shape, element), [], [], alignment=64).result
            where = ir.InsertionPoint(self.op) if is_of_groups else ir.InsertionPoint.after(copy.owner)
            with where, self.op.location:
                maps = ir.ArrayAttr.get([projection(kind.rank, range(kind.rank))] * 2)
                made = linalg.GenericOp([], [x], [copy], maps, ITERATOR_TYPES.write([PARALLEL] * kind.rank))
                block = made.regions[0].blocks.append(kind.element_type, element)
                with ir.InsertionPoint(block):
                    linalg.YieldOp([arith.extf(f32, block.arguments[0]) if widens else block.arguments[0]])
            self.copies[i] = copy

    def write(self) -> None:
        """Writes the loops at the current insertion point."""
        if self.has_groups:
            self._write_groups()
            return
        *outer, length = self.sizes[len(self.sums) :]
        places = list(itertools.product(*(range(self.sizes[d]) for d in self.sums)))
        width = max(1, min(_VECTORS, _REGISTERS // len(places), length // LANES))
        step = width * LANES
        whole = length // step * step

        def along(before: list[Value], sums: Sequence[Value]) -> list[Value]:
            if before:
                self._ask(before, index_value(0), range(0, length, step))

            def vectors(k: Value, *sums: Value) -> list[Value]:
                if not before:
                    self._ask(before, k, range(0, step, step))
                return self._add(before, k, width, None, sums, places)

            made = loop(0, whole, step, vectors, sums)
            for k in range(whole, length, LANES):
                lanes = length - k
                made[: len(places)] = self._add(
                    before, index_value(k), 1, lanes if lanes < LANES else None, made[: len(places)], places
                )
            return made

        def around(left: Sequence[int], before: list[Value], sums: Sequence[Value]) -> list[Value]:
            if not left:
                return along(before, sums)
            return loop(0, left[0], 1, lambda i, *sums: around(left[1:], [*before, i], sums), sums)

        zero = _splat(0.0)
        found = around(outer, [], [zero] * (width * len(places)))
        for s, place in enumerate(places):
            total = functools.reduce(arith.addf, found[s :: len(places)])
            self._add_up(total, [index_value(i) for i in place])

    def _write_groups(self) -> None:
        """Writes the sum over groups, some at a time. What a group's terms have in common, such as its scale, its sum is
        multiplied by."""
        count, length = self.sizes
        term, factor = self.term, None
        product = maker(term, arith.MulFOp)
        if product is not None:
            for x, y in (list(product.operands), list(product.operands)[::-1]):
                if _is_inside(term, self.op) and self._runs(x) and not self._runs(y):
                    term, factor = x, y

        def add(group: Value, total: Value) -> Value:
            part = total if factor is None else None
            for k in range(0, length, LANES):
                terms = _Terms(self, [group], index_value(k), None)
                part = terms.with_term(part, term, ())
            assert part is not None
            return part if factor is None else vector.fma(part, terms.vector_of(factor, ()), total)

        width = min(_VECTORS, count)
        size = width * length

        def some(first: Value, *sums: Value) -> list[Value]:
            self._ask([first], index_value(0), range(0, size, size))
            return [add(arith.addi(first, index_value(i)) if i else first, x) for i, x in enumerate(sums)]

        whole = count // width * width
        sums = loop(0, whole, width, some, [_splat(0.0)] * width)
        for group in range(whole, count):
            sums[group - whole] = add(index_value(group), sums[group - whole])
        self._add_up(functools.reduce(arith.addf, sums), [])

    def _runs(self, x: Value) -> bool:
        """Whether a value of the body is different along a group."""
        if isinstance(x.owner, ir.Block):
            return len(self.sizes) - 1 in self.dims[ir.BlockArgument(x).arg_number]
        return _is_inside(x, self.op) and any(self._runs(y) for y in x.owner.operands)

    def _add_up(self, total: Value, at: Sequence[Value]) -> None:
        """Adds the lanes of a vector to a sum."""
        f32, kind = ir.F32Type.get(), vector.CombiningKind.ADD
        added = vector.reduction(f32, kind, total, fastmath=arith.FastMathFlags.reassoc)
        result = self.op.operands[-1]
        memref.store(arith.addf(memref.load(result, at), added), result, at)

    def _add(
        self,
        before: Sequence[Value],
        k: Value,
        width: int,
        lanes: int | None,
        sums: Sequence[Value],
        places: Sequence[tuple[int, ...]],
    ) -> list[Value]:
        """Adds `width` vectors from k on to the sums, `lanes` of the last one if it is not full."""
        found = []
        for u in range(width):
            shared = _Terms(self, before, arith.addi(k, index_value(u * LANES)) if u else k, lanes)
            for s, place in enumerate(places):
                found.append(shared.added_to(sums[u * len(places) + s], place))
        return found

    def _ask(self, before: Sequence[Value], k: Value, steps: range) -> None:
        """Prefetches what lies `_AHEAD` bytes behind a step along a row, of each operand that comes from memory."""
        for i in self.streams:
            x = self.op.operands[i]
            view = maker(x, memref.SubViewOp)
            assert view is not None
            source, kept = view.operands[0], kept_dims(view)
            bits = ir.MemRefType(x.type).element_type.width
            row = math.prod(ir.MemRefType(x.type).shape) * bits // 8
            starts = starts_of(view)
            (dim,) = _moving(view)[-1:]
            most = index_value(ir.MemRefType(source.type).shape[dim] - 1)
            starts[dim] = arith.minui(arith.addi(starts[dim], index_value(max(1, -(-_AHEAD // row)))), most)
            loops = [*(before), k]
            for d, at in zip(kept, [loops[n - len(self.sums)] for n in self.dims[i]], strict=True):
                starts[d] = at if d != dim else starts[d]
            last = kept[-1]
            for at in range(0, steps.stop if before else steps.step, max(1, _LINE * 8 // bits)):
                place = list(starts)
                place[last] = arith.addi(starts[last], index_value(at)) if at else starts[last]
                memref.prefetch(source, place, False, 3, True)


#: The fewest elements of the innermost loop.
_LANES_LEAST = LANES


@dataclass
class _Terms:
    """Computes vectors of terms at one place along a row, each op once for all sums that share it."""

    row: Row
    before: Sequence[Value]
    k: Value
    lanes: int | None
    #: (value of the body, the sum where it depends on the sum) → the number or vector
    found: dict[tuple[Value, tuple[int, ...]], Value] = field(default_factory=dict)

    def added_to(self, total: Value | None, place: tuple[int, ...]) -> Value:
        """A vector of sums, or None for zeros, with the terms of one sum added."""
        if self.lanes is None:
            return self.with_term(total, self.row.term, place)
        term = arith.select(first_lanes(self.lanes), self.vector_of(self.row.term, place), _splat(0.0))
        return term if total is None else arith.addf(total, term)

    def with_term(self, total: Value | None, term: Value, place: tuple[int, ...]) -> Value:
        """A vector of sums with a term added: the products of a sum one by one, each by one instruction."""
        both = maker(term, arith.AddFOp)
        if both is not None and _is_inside(term, self.row.op) and sum(1 for _ in term.uses) == 1:
            for x in both.operands:
                total = self.with_term(total, x, place)
            assert total is not None
            return total
        product = maker(term, arith.MulFOp)
        if product is None or total is None or not _is_inside(term, self.row.op):
            value = self.vector_of(term, place)
            return value if total is None else arith.addf(total, value)
        x, y = (self.vector_of(x, place) for x in product.operands)
        return vector.fma(x, y, total)

    def vector_of(self, x: Value, place: tuple[int, ...]) -> Value:
        """A value of the body as a vector."""
        return self._wide(self.value(x, place))

    def value(self, x: Value, place: tuple[int, ...]) -> Value:
        """A value of the body: a vector if it runs along the row, else a number."""
        needs = self._needs(x)
        key = (x, tuple(place[d] if d in needs else -1 for d in range(len(place))))
        if key not in self.found:
            self.found[key] = self._made(x, place)
        return self.found[key]

    def _needs(self, x: Value) -> set[int]:
        """The loops over sums on which a value of the body depends."""
        row = self.row
        if isinstance(x.owner, ir.Block):
            return {d for d in row.dims[ir.BlockArgument(x).arg_number] if d in row.sums}
        return set().union(*(self._needs(y) for y in x.owner.operands)) if _is_inside(x, row.op) else set()

    def _made(self, x: Value, place: tuple[int, ...]) -> Value:
        row = self.row
        if isinstance(x.owner, ir.Block):
            number = ir.BlockArgument(x).arg_number
            return self._load(number, place, row.copies.get(number, row.op.operands[number]))
        if not _is_inside(x, row.op):
            return x
        if len(x.owner.operands) == 1 and isinstance((y := x.owner.operands[0]).owner, ir.Block):
            copy = row.copies.get(number := ir.BlockArgument(y).arg_number)
            if copy is not None and ir.MemRefType(copy.type).element_type == x.type:
                return self._load(number, place, copy)
        operands = [self.value(y, place) for y in x.owner.operands]
        if not any(isinstance(y.type, ir.VectorType) for y in operands):
            return repeat_op(x.owner, operands, x.type).results[0]
        kind = ir.VectorType.get([LANES], x.type)
        return repeat_op(x.owner, [self._wide(y) for y in operands], kind).results[0]

    def _load(self, number: int, place: tuple[int, ...], buffer: Value) -> Value:
        """Loads an element of an operand, or a vector of them, from the operand's memory or from a copy."""
        row = self.row
        loops = [*(index_value(i) for i in place), *self.before, self.k]
        dims = row.dims[number]
        at = [loops[d] for d in dims]
        element = ir.MemRefType(buffer.type).element_type
        if len(row.sizes) - 1 not in dims:
            return memref.load(buffer, at)
        kind = ir.VectorType.get([LANES], element)
        if self.lanes is None:
            return vector.load(kind, buffer, at)
        return vector.maskedload(kind, buffer, at, first_lanes(self.lanes), _nothing(kind))

    @staticmethod
    def _wide(x: Value) -> Value:
        return x if isinstance(x.type, ir.VectorType) else vector.broadcast(ir.VectorType.get([LANES], x.type), x)


def _term(op: ir.Operation) -> Value | None:
    """What a generic adds to its one result, a sum of f32; None for any other op."""
    block = op.regions[0].blocks[0]
    out = block.arguments[len(block.arguments) - 1]
    *_, end = block.operations
    if len(end.operands) != 1 or not isinstance(out.type, ir.F32Type) or len(op.operands) != len(block.arguments):
        return None
    total = maker(end.operands[0], arith.AddFOp)
    if total is None or sum(1 for _ in out.uses) != 1 or out not in list(total.operands):
        return None
    if not all(inner.name.startswith(_ON_VECTORS) for inner in body_ops(op) if inner.name != end.operation.name):
        return None
    if any(inner.name == arith.ConstantOp.OPERATION_NAME for inner in body_ops(op)):
        return None
    (term,) = [x for x in total.operands if x != out]
    return term


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


def _moving(view: ir.Operation) -> list[int]:
    """The dims of a subview's source along which its place depends on the tile."""
    return [d for d, start in enumerate(starts_of(view)) if maker(start, arith.ConstantOp) is None]


def _is_stream(x: Value) -> bool:
    """Whether an operand is a tile's part of a matrix that is too large for the next cache."""
    view = maker(x, memref.SubViewOp)
    if view is None:
        return False
    source = ir.MemRefType(view.operands[0].type)
    if not source.has_static_shape or not (moving := _moving(view)):
        return False
    bits = source.element_type.width
    return math.prod(source.shape) * bits >= 8 * _LARGE and moving[-1] not in kept_dims(view)


def _is_shared(x: Value) -> bool:
    """Whether an operand is the same for all tiles, and small."""
    kind = ir.MemRefType(x.type)
    return isinstance(x.owner, ir.Block) and 0 < kind.rank and math.prod(kind.shape) <= _MOST_COPIED


def _is_dense(x: Value, dims: int) -> bool:
    """Whether the last dims of an operand, after the first, follow one another without gaps."""
    shape, strides = memref_shape(x.type)
    return strides[-1] == 1 and all(strides[-i - 1] == shape[-i] * strides[-i] for i in range(1, dims + 1))


def _is_inside(x: Value, op: ir.Operation) -> bool:
    """Whether a value is computed in a generic's body."""
    return x.owner.operation.block == op.regions[0].blocks[0]


def _splat(number: float) -> Value:
    kind = ir.VectorType.get([LANES], ir.F32Type.get())
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, ir.FloatAttr.get_f32(number))).result


def _nothing(kind: ir.Type) -> Value:
    """A vector of zeros of floats or integers."""
    element = ir.VectorType(kind).element_type
    is_integer = isinstance(element, ir.IntegerType)
    zero = ir.IntegerAttr.get(element, 0) if is_integer else ir.FloatAttr.get(element, 0.0)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result
