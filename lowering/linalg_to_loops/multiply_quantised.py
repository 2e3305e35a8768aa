"""Multiplies rows by a quantised weight, each row of which is unpacked once for all of them, in registers.

linalg.generic {mulf, addf, mulf, addf}           scf.for %c = 0 to 8 {                 64 bytes, 4 groups
  ins(%low, %high : memref<4x32x16xbf16>,           memref.prefetch %w[%row + 16, %c * 4, 0]
      %w : memref<32x16xi8>,                        %v:4 = looked up in 0, 1, … 15: %w[%c * 64], … >> 4, >> 8, >> 12
      %scale : memref<32xf32>)               →      %p = dpbf16ps %v#0, %x[%c, 0, %m] …  4 pairs of vectors
  outs(%sums : memref<4xf32>)                       fma %p, (shuffle %scale[%c * 4 .. + 4]), %sums#m … }
                                                  %sums[%m] += vector.reduction <add> %sums#m

A decoding step waits for its weights, but conversions of 4 bits take longer than memory does. A table holds the 16
values, and an instruction looks up 16 or 32 of them. Each lane holds elements of one group, whose scale its sum is
multiplied by. Where the processor multiplies pairs of bf16, values are bf16, which holds them exactly, and the rows
are what they were in memory. Where it has AVX2 but not AVX-512, values of 4 bits and rows of bf16 are multiplied as
integers of 16 bits, in pairs; `quantised/packing.py` says how rows become integers. Else both are f32. The rows are
laid out in the order in which they are read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, memref, vector
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import index_value, memref_shape
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL, REDUCTION
from cuesta.errors import OptionError
from cuesta.lowering.linalg_to_loops.quantised.packing import Packed, Rows
from cuesta.lowering.linalg_to_loops.quantised.term import QuantisedTerm
from cuesta.lowering.linalg_to_loops.quantised.unpacking import (
    Unpacking,
    computed_bytes,
    pairs_of_halves,
    plain_halves,
    tables_of_halves,
    whole_bytes,
    words_of_halves,
)
from cuesta.lowering.linalg_to_loops.sums.terms import is_dense, is_shared, moving_dims
from cuesta.lowering.linalg_to_loops.vector_loops import (
    AHEAD,
    LINE,
    keep_whole,
    loop,
    vector_type,
    widened,
    zeros,
)
from cuesta.lowering.linalg_to_loops.views import kept_dims, starts_of
from cuesta.lowering.linalg_to_loops.x86 import multiply_pairs, multiply_words
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.policy.few_rows import FEW_ROWS
from cuesta.runtime.machine import instructions

Value: TypeAlias = ir.Value

#: The fewest sums in registers that hide how long an addition takes.
_FEWEST_SUMS = 2
#: The ways to unpack, and what takes the place of those that need rows of bf16.
_WAYS = ("plain", "words", "tables", "pairs")
_OF_OTHER_FLOATS = {"words": "plain", "pairs": "tables"}


@register_pass("multiply-quantised")
@dataclass(frozen=True)
class MultiplyQuantised(Pass):
    """Lowers products of rows by a quantised weight to loops of vectors that are unpacked once."""

    #: How values are unpacked: "plain", as "words", by "tables", as "pairs" of bf16, or the best this machine can do,
    #: "host".
    by: str = "host"

    def run(self, module: ir.Module) -> None:
        way = best_way() if self.by == "host" else self.by
        if way not in _WAYS:
            raise OptionError(f"multiply-quantised: by={way} is not one of {', '.join((*_WAYS, 'host'))}")
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        ops = [op for op in walk(function.operation) if is_generic(op)]
                        # All are found before any is written: what reads a row is then no generic any more.
                        for product in [found for op in ops if (found := _product_of(op, way)) is not None]:
                            packed = product.pack(function.regions[0].blocks[0])
                            with ir.InsertionPoint(product.op), product.op.location:
                                product.write(packed)
                            product.op.erase()


def best_way() -> str:
    """How this machine unpacks values best."""
    own = instructions()
    if "avx512f" not in own:
        return "words" if "avx2" in own else "plain"
    return "pairs" if {"avx512bw", "avx512_bf16"} <= own else "tables"


@dataclass(frozen=True)
class _Product:
    """Sums over the groups and elements of a row of a weight, for each of some rows of x."""

    op: ir.Operation
    term: QuantisedTerm
    unpacking: Unpacking
    #: rows of x; None: one, without a dim
    rows: int | None
    #: bytes of a row of the weight, and of its part along the innermost dim
    size: int
    inner: int

    @property
    def weight(self) -> Value:
        return self.op.operands[self.term.weight]

    @property
    def count(self) -> int:
        """How many rows of x there are."""
        return 1 if self.rows is None else self.rows

    def place(self, m: int) -> list[Value]:
        """The index of row m of x along the dim of rows, where there is one."""
        return [] if self.rows is None else [index_value(m)]

    # -- the rows of x ----------------------------------------------------------------------------
    @property
    def x(self) -> Rows:
        return Rows(self.unpacking, self.count, self.size, self._number)

    def pack(self, entry: ir.Block) -> Packed:
        """Lays out the rows of x at the beginning of the function."""
        with ir.InsertionPoint.at_block_begin(entry), self.op.location:
            return self.x.pack()

    def _number(self, m: int, byte: Value, half: int) -> Value:
        """The element of row m of x that a value of a byte is multiplied by."""
        along = [byte]
        if self.inner < self.size:
            inner = index_value(self.inner)
            along = [arith.divui(byte, inner), arith.remui(byte, inner)]
        return memref.load(self.op.operands[self.term.x[half]], [*self.place(m), *along])

    # -- the sums ---------------------------------------------------------------------------------
    def write(self, packed: Packed) -> None:
        """Writes the loop over parts of a row, and adds its sums to the result."""
        bytes_, count = self._flat_row(), self.count
        together = max(1, _FEWEST_SUMS // count)
        whole = self.size // self.unpacking.size

        def some(part: Value, *sums: Value) -> list[Value]:
            self._ask(part, together)
            found: list[Value] = []
            for i in range(together):
                at = arith.addi(part, index_value(i)) if i else part
                found += self._part(bytes_, packed, at, sums[i * count : (i + 1) * count], self.unpacking.size)
            return found

        end = whole // together * together
        sums = loop(0, end, together, some, [zeros()] * (together * count))
        if sums:
            keep_whole(sums)
        for part in range(end, -(-self.size // self.unpacking.size)):
            left = min(self.size - part * self.unpacking.size, self.unpacking.size)
            i = (part - end) % together * count
            sums[i : i + count] = self._part(bytes_, packed, index_value(part), sums[i : i + count], left)
        result = self.op.operands[-1]
        for m in range(count):
            total = functools.reduce(arith.addf, sums[m::count])
            added = vector.reduction(
                ir.F32Type.get(), vector.CombiningKind.ADD, total, fastmath=arith.FastMathFlags.reassoc
            )
            place = self.place(m)
            memref.store(arith.addf(memref.load(result, place), added), result, place)

    def _flat_row(self) -> Value:
        """The bytes of the weight's row, in one dim."""
        kind = ir.MemRefType(self.weight.type)
        if kind.rank == 1:
            return self.weight
        layout = ir.StridedLayoutAttr.get(ir.ShapedType.get_dynamic_stride_or_offset(), [1])
        flat = ir.MemRefType.get([self.size], kind.element_type, layout)
        i64 = ir.IntegerType.get_signless(64)
        dims = ir.ArrayAttr.get([ir.ArrayAttr.get([ir.IntegerAttr.get(i64, d) for d in range(2)])])
        return memref.CollapseShapeOp(flat, self.weight, dims).result

    def _part(self, bytes_: Value, packed: Packed, part: Value, sums: Sequence[Value], left: int) -> list[Value]:
        """The sums of all rows, with a part of the weight's row added, of which there are `left` bytes."""
        start = arith.muli(part, index_value(self.unpacking.size))
        values = self.unpacking.vectors(lambda at, size: _bytes(bytes_, start, at, size, left))
        scale = None if self.term.scale is None else self._scales(part, left)
        found = []
        for m, total in enumerate(sums):
            factor = self._factor(packed, part, m, scale)
            own = self._sum(packed, part, m, values, total if factor is None else None)
            found.append(own if factor is None else vector.fma(own, factor, total))
        return found

    def _factor(self, packed: Packed, part: Value, m: int, scale: Value | None) -> Value | None:
        """What the sums of row m over a part are multiplied by; None: nothing."""
        if packed.steps is None:
            return scale
        at = arith.addi(arith.muli(part, index_value(self.count)), index_value(m))
        step = vector.broadcast(vector_type(), memref.load(packed.steps, [at]))
        return step if scale is None else arith.mulf(step, scale)

    def _sum(self, packed: Packed, part: Value, m: int, values: Sequence[Value], total: Value | None) -> Value:
        """The sums of row m over a part, added to a total in f32."""
        unpacking, first = self.unpacking, arith.muli(part, index_value(self.x.of_part))
        kind = ir.VectorType.get([unpacking.lanes], unpacking.element)
        places = (index_value((j * self.count + m) * unpacking.lanes) for j in range(len(values)))
        rows = (vector.load(kind, packed.values, [arith.addi(first, place)]) for place in places)
        if packed.steps is not None:
            products = [multiply_words(x, value) for x, value in zip(rows, values, strict=True)]
            return arith.sitofp(vector_type(), functools.reduce(arith.addi, products))
        multiply = multiply_pairs if unpacking.kind == "bf16" else vector.fma
        own = zeros() if total is None else total
        for x, value in zip(rows, values, strict=True):
            own = multiply(x, value, own)
        return own

    def _scales(self, part: Value, left: int) -> Value:
        """The scale of each lane's group."""
        assert self.term.scale is not None
        scales, length = self.op.operands[self.term.scale], self.inner * self.unpacking.in_a_byte
        groups = self.unpacking.groups_of_lanes(length)
        assert groups is not None
        if length >= self.unpacking.elements:
            of_group = index_value(length // self.unpacking.elements)
            scale = memref.load(scales, [arith.divui(part, of_group)])
            return vector.broadcast(vector_type(), widened(scale))
        count = min(groups[-1] + 1, -(-left // self.inner))
        kind = ir.VectorType.get([count], ir.MemRefType(scales.type).element_type)
        own = widened(vector.load(kind, scales, [arith.muli(part, index_value(groups[-1] + 1))]))
        return vector.shuffle(own, own, [min(group, count - 1) for group in groups])

    def _ask(self, part: Value, count: int) -> None:
        """Prefetches what lies `AHEAD` bytes behind some parts of the weight's row. Behind the last row it is the last
        row again."""
        view = maker(self.weight, memref.SubViewOp)
        assert view is not None
        source, starts = view.operands[0], starts_of(view)
        moving = moving_dims(view)[-1]
        last = index_value(ir.MemRefType(source.type).shape[moving] - 1)
        starts[moving] = arith.minui(arith.addi(starts[moving], index_value(-(-AHEAD // self.size))), last)
        byte = arith.muli(part, index_value(self.unpacking.size))
        kept = kept_dims(view)
        for at in range(0, count * self.unpacking.size, LINE):
            place = arith.addi(byte, index_value(at)) if at else byte
            if len(kept) == 2:
                starts[kept[0]] = arith.divui(place, index_value(self.inner))
                place = arith.remui(place, index_value(self.inner))
            memref.prefetch(source, [*starts[:-1], place], False, 3, True)


def _product_of(op: ir.Operation, way: str) -> _Product | None:
    """The product that a generic computes, if its operands lie as these loops need it; None for any other generic."""
    term = QuantisedTerm.of(op)
    if term is None or not all(isinstance(x.type, ir.MemRefType) and x.type.has_static_shape for x in op.operands):
        return None
    dims, kinds = operand_dims(op), ITERATOR_TYPES.of(op)
    loops = tuple(range(len(kinds)))
    lead, inner = (loops[:1], loops[1:]) if kinds[0] == PARALLEL else ((), loops)
    if not 1 <= len(inner) <= 2 or any(kinds[d] != REDUCTION for d in inner):
        return None
    scales = [] if term.scale is None else [term.scale]
    fit = dims[term.weight] == inner and dims[-1] == lead and all(dims[x] == (*lead, *inner) for x in term.x)
    if not fit or any(dims[s] != inner[:-1] or len(inner) < 2 for s in scales):
        return None
    weight, rows = op.operands[term.weight], ir.MemRefType(op.operands[-1].type).shape
    shape = ir.MemRefType(weight.type).shape
    if not _is_row(weight) or any(memref_shape(op.operands[s].type)[1] != (1,) for s in scales):
        return None
    if not all(is_shared(op.operands[x]) for x in term.x) or math.prod(rows) > FEW_ROWS:
        return None
    kinds_of_x = {str(ir.MemRefType(op.operands[x].type).element_type) for x in term.x}
    group = 0 if term.scale is None else shape[-1] * len(term.x)
    ways = _ways(term, way if kinds_of_x == {"bf16"} else _OF_OTHER_FLOATS.get(way, way), is_one=not rows)
    size = math.prod(shape)
    # Behind a row's end bytes are 0, of which a float need not be 0.
    fits = [each for each in ways if term.value.computed is None or size % each.size == 0]
    found = next((each for each in fits if not group or each.groups_of_lanes(group) is not None), None)
    return None if found is None else _Product(op, term, found, rows[0] if rows else None, size, shape[-1])


def _ways(term: QuantisedTerm, way: str, is_one: bool) -> Iterator[Unpacking]:
    """The ways to unpack a weight, the best first. What `sum-rows` does with one row is no worse for bytes, and for
    values of 4 bits without tables or words."""
    if term.value.computed is not None:
        if not is_one:
            yield from (computed_bytes(term.value.computed, 2), computed_bytes(term.value.computed, 1))
        return
    if len(term.x) == 1:
        if not is_one:
            pairs, signed = way == "pairs", term.value.signed
            yield from (whole_bytes(signed, pairs, 2), whole_bytes(signed, pairs, 1), whole_bytes(signed, False, 1))
        return
    if way == "pairs":
        yield pairs_of_halves()
    if way == "words":
        yield words_of_halves()
    if way in ("tables", "pairs"):
        yield tables_of_halves()
    if not is_one:
        yield plain_halves()


def _is_row(weight: Value) -> bool:
    """Whether a weight's row is a view of bytes that follow one another, of a matrix that tiles walk."""
    view = maker(weight, memref.SubViewOp)
    if view is None or not ir.MemRefType(view.operands[0].type).has_static_shape or not (moving := moving_dims(view)):
        return False
    _, strides = memref_shape(weight.type)
    is_whole = is_dense(weight) if len(strides) > 1 else strides[-1] == 1
    kept, rank = kept_dims(view), ir.MemRefType(view.operands[0].type).rank
    is_last = kept == list(range(rank - len(kept), rank)) and moving[-1] not in kept
    return is_whole and is_last and str(ir.MemRefType(weight.type).element_type) == "i8"


def _bytes(source: Value, start: Value, at: int, size: int, left: int) -> Value:
    """Loads `size` bytes, `at` bytes behind the start of a part, with zeros for those behind the `left` ones."""
    kind = ir.VectorType.get([size], ir.IntegerType.get_signless(8))
    place = [arith.addi(start, index_value(at)) if at else start]
    if at + size <= left:
        return vector.load(kind, source, place)
    zero = arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, 0))).result
    if at >= left:
        return zero
    mask = vector.constant_mask(ir.VectorType.get([size], ir.IntegerType.get_signless(1)), [left - at])
    return vector.maskedload(kind, source, place, mask, zero)
