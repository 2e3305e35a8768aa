"""Fuses loops that write narrow columns into the loops over the rows beside these columns.

affine.for %r = 0 to 56 { store %zero, %left[%r] }          affine.for %r = 0 to 56 {
affine.for %r = 0 to 56 {                                     store %zero, %left[%r]
  affine.for %c = 0 to 56 { store %v, %rows[%r, %c] } }  →    affine.for %c = 0 to 56 { store %v, %rows[%r, %c] }
                                                            }

A loop over the column of a padded or concatenated image alone fetches a cache line for each few elements, one by one or
in a scatter of LLVM's, and the loop over rows writes these lines again: padding 8x64x56x56 took 1.7 times as long.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TypeAlias

from cuesta._mlir import affine, func, ir, memref, scf
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.types import memref_shape
from cuesta.lowering.linalg_to_loops.views import VIEWS, memory_of
from cuesta.passes.infra.registry import Pass, register_pass

Value: TypeAlias = ir.Value

#: The most elements per row of a narrow column: a cache line of f32.
_NARROW = 16
_LOOP, _STORE = affine.AffineForOp.OPERATION_NAME, affine.AffineStoreOp.OPERATION_NAME
#: Ops that do not change buffers.
_LEAVE = (*VIEWS, *(op.OPERATION_NAME for op in (affine.AffineLoadOp, memref.LoadOp, memref.DimOp)))
_BOUNDS = ("lowerBoundMap", "upperBoundMap", "step")


@register_pass("join-loops")
class JoinLoops(Pass):
    """Fuses loops that write narrow columns into the loops over the rows beside them."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in nested.body.operations:
                    if isinstance(function, func.FuncOp):
                        _join(function.operation)


def _join(function: ir.Operation) -> None:
    blocks = [block for region in function.regions for block in region.blocks]
    blocks += [op.regions[0].blocks[0] for op in walk(function) if op.name == scf.ForOp.OPERATION_NAME]
    for block in blocks:
        ops = [op.operation for op in block.operations]
        loops = [op for op in ops if op.name == _LOOP]
        rows = [loop for loop in loops if _is_over_rows(loop)]
        for column in loops if rows else ():
            partner = next((row for row in rows if _are_alike(row, column) and _may_join(ops, row, column)), None)
            if partner is not None and column not in rows and _is_narrow_column(column):
                _move_into(partner, column, ops)
                column.erase()
                ops = [op.operation for op in block.operations]  # views may have moved too


def _is_over_rows(loop: ir.Operation) -> bool:
    """Whether a loop contains a loop of more than `_NARROW` iterations."""
    return any(op.name == _LOOP and _count(op) > _NARROW for op in walk(loop))


def _is_narrow_column(loop: ir.Operation) -> bool:
    """Whether each iteration of a loop writes a few elements, which are not contiguous with those of the next
    iteration, and calls no math function, which is faster on vectors."""
    ops = list(walk(loop))
    stores = [op for op in ops if op.name == _STORE]
    written = 0
    for store in stores:
        _, strides = memref_shape(store.operands[1].type)
        own = [s for s, at in zip(strides, list(store.operands)[2:], strict=False) if at == _counter(loop)]
        if len(own) != 1 or not isinstance(own[0], int) or own[0] <= 1:
            return False
        written += math.prod(_count(op) for op in ops if op.name == _LOOP and _holds(op, store))
    return 0 < written <= _NARROW and not any(op.name.startswith("math.") for op in ops)


def _holds(loop: ir.Operation, op: ir.Operation) -> bool:
    return any(inner == op for inner in walk(loop))


def _are_alike(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two loops without carried values have the same constant bounds."""
    plain = all(not loop.results and not loop.operands for loop in (one, other))
    return plain and one != other and all(one.attributes[name] == other.attributes[name] for name in _BOUNDS)


def _count(loop: ir.Operation) -> int:
    """The iterations of a loop; a very large number if its bounds are not constant."""
    if loop.operands:
        return 1 << 30
    first, last = (ir.AffineConstantExpr(loop.attributes[name].value.results[0]).value for name in _BOUNDS[:2])
    return int(last - first)


def _counter(loop: ir.Operation) -> Value:
    return loop.regions[0].blocks[0].arguments[0]


def _may_join(ops: Sequence[ir.Operation], row: ir.Operation, column: ir.Operation) -> bool:
    """Whether a column's loop may move into a row's loop: neither the row's loop nor any op between the two writes
    memory that the column's loop reads, or accesses memory that it writes."""
    first, last = sorted((ops.index(row), ops.index(column)))
    between = [op for op in ops[first : last + 1] if op != column]
    touched, written = _touched(column), _touched(column, _LEAVE)
    return not any(written & _touched(op, VIEWS) or touched & _touched(op, _LEAVE) for op in between)


def _touched(op: ir.Operation, but: Collection[str] = ()) -> set[Value]:
    """The memory that an op or its nested ops use, apart from uses by ops whose names are in `but`."""
    inside = [inner for inner in (op, *walk(op)) if inner.name not in but]
    return {memory_of(v) for inner in inside for v in inner.operands if isinstance(v.type, ir.MemRefType)}


def _move_into(row: ir.Operation, column: ir.Operation, ops: Sequence[ir.Operation]) -> None:
    """Moves the body of a column's loop into each iteration of a row's loop: before or after the row's body, in the
    order of the two loops."""
    inside = list(row.regions[0].blocks[0].operations)
    before = ops.index(column) < ops.index(row)
    place = inside[0 if before else -1].operation
    if not before:
        for op in _needed(column, set(ops[ops.index(row) :])):
            op.move_before(row)
    _counter(column).replace_all_uses_with(_counter(row))
    for view in list(column.regions[0].blocks[0].operations)[:-1]:
        view.operation.move_before(place)


def _needed(loop: ir.Operation, later: set[ir.Operation]) -> Iterator[ir.Operation]:
    """The ops among `later` that a loop depends on, such as views and constants, each after its own operands."""
    seen: set[ir.Operation] = set()

    def visit(op: ir.Operation) -> Iterator[ir.Operation]:
        for value in (v for inner in (op, *walk(op)) for v in inner.operands):
            owner = value.owner
            if not isinstance(owner, ir.Block) and owner in later and owner not in seen:
                seen.add(owner)
                yield from visit(owner)
                yield owner

    yield from visit(loop)
