"""Splits sums of f32 over symbolic sizes into boxes, because a long sequential sum in f32 is inexact.

linalg.generic {addf}                 %part = memref.alloca() : memref<64xf32>
  ins(%x : memref<?x64xf32>)          scf.for %i = 0 to %n step 2048 {
  outs(%r : memref<64xf32>)     →       linalg.fill ins(0) outs(%part)
                                        linalg.generic {addf} ins(%x[%i .. %i + 2048]) outs(%part)
                                        linalg.generic {addf} ins(%part) outs(%r) }

Added one by one, ten million tenths lose 0.0015 of their sum; in boxes, 0.000001. A sum along vectors stays one loop if
the call has no more numbers than a box, because the remainder of that loop is known for more sizes. If all sizes are
constant, split-reductions splits the sum.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, func, ir, linalg, memref, scf
from cuesta.dialects import maker, walk
from cuesta.dialects.affine_maps import operand_dims, projection
from cuesta.dialects.clones import clone_op
from cuesta.dialects.kernel_module import body_ops, kernel_modules, sized
from cuesta.dialects.named_linalg import fill_buffer, is_generic, is_index
from cuesta.dialects.types import index_value
from cuesta.dialects.upstream_fields import (
    INDEX_DIM,
    INDEXING_MAPS,
    ITERATOR_TYPES,
    PARALLEL,
    REDUCTION,
    constant_of,
)
from cuesta.lowering.linalg_to_loops.vector_loops import LANES, Extent, scratch, value_of
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: The most sums of a tile for which a box gets scratch memory.
_MOST = 1 << 12
_DYNAMIC, _DYNAMIC_OFFSET = ir.ShapedType.get_dynamic_size(), ir.ShapedType.get_dynamic_stride_or_offset()


@register_pass("sum-boxes")
@dataclass(frozen=True)
class SumBoxes(Pass):
    """Adds up long sums of f32 box by box, in kernels with symbolic sizes."""

    #: The most numbers that are added one after the other.
    longest: int = 2048

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp) and sized(function):
                        for op in [op for op in walk(function.operation) if _sums(op)]:
                            self._rewrite(op, function.regions[0].blocks[0])

    def _rewrite(self, op: ir.Operation, entry: ir.Block) -> None:
        limits = _limits(op.operands[-1])
        if limits is None:
            return
        kinds = ITERATOR_TYPES.of(op)
        along = kinds[-1] == REDUCTION  # the sum runs along vectors: each lane adds up a share of the numbers
        most = self.longest * (LANES if along else 1)
        with ir.InsertionPoint.at_block_begin(entry), op.location:
            part = scratch(limits)
        with ir.InsertionPoint(op), op.location:
            sizes = {d: _extent(*_walked(op, d)) for d, kind in enumerate(kinds) if kind == REDUCTION}
            boxes = functools.partial(_in_boxes, sizes, most, functools.partial(_sum_box, op, part))
            if not along:
                boxes()
                op.erase()
                return
            total = functools.reduce(arith.muli, map(value_of, sizes.values()))
            choice = scf.IfOp(arith.cmpi(arith.CmpIPredicate.ugt, total, index_value(most)), has_else=True)
            with ir.InsertionPoint(choice.then_block):
                boxes()
                scf.YieldOp([])
            with ir.InsertionPoint(choice.else_block):
                end = scf.YieldOp([])
        op.move_before(end.operation)


def _sums(op: ir.Operation) -> bool:
    """Whether an op adds up f32 along a dim of symbolic size."""
    if not is_generic(op) or len(op.results) or not op.operands:
        return False
    block = op.regions[0].blocks[0]
    out = block.arguments[len(block.arguments) - 1]
    (*_, end) = block.operations
    if len(end.operands) != 1 or not isinstance(out.type, ir.F32Type):
        return False
    total = maker(end.operands[0], arith.AddFOp)
    if total is None or out not in list(total.operands) or sum(1 for _ in out.uses) != 1:
        return False
    reduced = [d for d, kind in enumerate(ITERATOR_TYPES.of(op)) if kind == REDUCTION]
    return any(_is_told(*_walked(op, d)) for d in reduced)


def _walked(op: ir.Operation, loop: int) -> tuple[Value, int]:
    """An operand that a loop walks, and the operand's dim of that loop: a dim of constant size if there is one."""
    found = [(v, dims.index(loop)) for v, dims in zip(op.operands, operand_dims(op), strict=True) if loop in dims]
    return min(found, key=lambda place: _is_told(*place))


def _is_told(value: Value, at: int) -> bool:
    """Whether a size is symbolic."""
    return bool(ir.MemRefType(value.type).shape[at] == _DYNAMIC)


def _limits(result: Value) -> list[int] | None:
    """The largest sizes of a tile of sums; None if they are unknown or too large."""
    shape = list(ir.MemRefType(result.type).shape)
    if _DYNAMIC in shape:
        view = maker(result, memref.SubViewOp)
        if view is None:
            return None
        widths = iter([_width(size) for size in view.opview.sizes])
        shape = [next(widths) if n == _DYNAMIC else n for n in shape]
    return shape if math.prod(shape) <= _MOST else None


def _width(size: Value) -> int:
    """The constant T of min(size - start, T), tiling's size of a partial tile; more than `_MOST` for other values."""
    op = maker(size, arith.MinSIOp)
    found = [] if op is None else [int(n) for operand in op.operands if (n := constant_of(operand)) is not None]
    return found[0] if found else _MOST + 1


def _steps(sizes: Mapping[int, Extent], most: int) -> dict[int, Value]:
    """The sizes of a box along the reduced dims, at most `most` elements in all. Later dims get as much as possible."""
    one, left = index_value(1), index_value(most)
    if len(sizes) == 1:
        return dict.fromkeys(sizes, left)
    steps = {}
    for d, size in reversed(list(sizes.items())):
        steps[d] = arith.maxui(arith.minui(value_of(size), left), one)
        left = arith.maxui(arith.divui(left, steps[d]), one)
    return steps


def _in_boxes(sizes: Mapping[int, Extent], most: int, body: Callable[[dict[int, tuple[Value, Value]]], object]) -> None:
    """Loops over the boxes of an iteration space. `body` gets each dim's (start, size) of a box."""
    steps = _steps(sizes, most)

    def loop(left: list[int], box: dict[int, tuple[Value, Value]]) -> None:
        if not left:
            body(box)
            return
        d, *others = left
        made = scf.ForOp(index_value(0), value_of(sizes[d]), steps[d])
        with ir.InsertionPoint(made.body):
            start = made.induction_variable
            loop(others, {**box, d: (start, arith.minui(steps[d], arith.subi(value_of(sizes[d]), start)))})
            scf.YieldOp([])

    loop(list(sizes), {})


def _sum_box(op: ir.Operation, memory: Value, box: Mapping[int, tuple[Value, Value]]) -> None:
    """Computes a box's sums in `memory` and adds them to the result."""
    *inputs, result = op.operands
    maps = operand_dims(op)
    whole = [_extent(result, at) for at in range(len(maps[-1]))]
    part = _view(memory, [(index_value(0), n) for n in whole]) if any(not isinstance(n, int) for n in whole) else memory
    fill_buffer(arith.constant(ir.F32Type.get(), 0.0), part)
    views = []
    for value, dims in zip(inputs, maps, strict=False):
        places = [box.get(d, (index_value(0), _extent(value, at))) for at, d in enumerate(dims)]
        views.append(_view(value, places) if any(d in box for d in dims) else value)
    loops = (op.attributes[field.name] for field in (INDEXING_MAPS, ITERATOR_TYPES))
    made = linalg.GenericOp([], views, [part], *loops)
    old = op.regions[0].blocks[0]
    block = made.regions[0].blocks.append(*[a.type for a in old.arguments])
    mapping = dict(zip(old.arguments, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for inner in body_ops(op):
            clone_op(inner, mapping)
            if is_index(inner) and INDEX_DIM.of(inner) in box:
                start, _ = box[INDEX_DIM.of(inner)]
                mapping[inner.results[0]] = arith.addi(mapping[inner.results[0]], start)
    _add(part, result)


def _extent(value: Value, at: int) -> Extent:
    """The size of a buffer along a dim."""
    if _is_told(value, at):
        return memref.DimOp(value, index_value(at)).result
    return int(ir.MemRefType(value.type).shape[at])


def _view(value: Value, places: Sequence[tuple[Value, Extent]]) -> Value:
    """A subview of a buffer; `places` has (start, size) for each dim."""
    kind = ir.MemRefType(value.type)
    strides, offset = kind.get_strides_and_offset()
    stays = not any(strides)  # all strides are 0: MLIR infers the source's offset for every subview of such a broadcast
    shape = [n if isinstance(n, int) else _DYNAMIC for _, n in places]
    given = [n for _, n in places if not isinstance(n, int)]
    layout = ir.StridedLayoutAttr.get(offset if stays else _DYNAMIC_OFFSET, strides)
    made = ir.MemRefType.get(shape, kind.element_type, layout, kind.memory_space)
    starts = [start for start, _ in places]
    return memref.SubViewOp(made, value, starts, given, [], [_DYNAMIC] * len(shape), shape, [1] * len(shape)).result


def _add(part: Value, result: Value) -> None:
    """Adds a buffer to another of the same sizes."""
    rank = ir.MemRefType(result.type).rank
    maps = ir.ArrayAttr.get([projection(rank, range(rank))] * 2)
    made = linalg.GenericOp([], [part], [result], maps, ITERATOR_TYPES.write([PARALLEL] * rank))
    block = made.regions[0].blocks.append(ir.F32Type.get(), ir.F32Type.get())
    with ir.InsertionPoint(block):
        linalg.YieldOp([arith.addf(*block.arguments)])
