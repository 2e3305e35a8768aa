"""Keeps LLVM from vectorising across short rows: with this annotation it unrolls a row and then vectorises along it.

    scf.for %i = 0 to %n {                               scf.for %i = 0 to %n {
      scf.for %j = 0 to 10 {                   →           …
        memref.store %v, %y[%i, %j]                      } {llvm.loop_annotation = <vectorize = <disable = true>>}

Across sixteen rows of ten elements LLVM would emit ten scatters; along a row it emits a store of eight and one of two.

A short row that is searched for a position (argmax) is not unrolled: LLVM vectorises the loop, but not a chain of
unrolled selects (argmax of rows of 16 takes 0.28 of the time). With up to eight elements, several rows fill a vector.
"""

from __future__ import annotations

from cuesta._mlir import arith, ir, memref, scf
from cuesta.dialects import walk
from cuesta.dialects.kernel_module import LOOP_ANNOTATION, kernel_modules
from cuesta.dialects.upstream_fields import constant_of
from cuesta.passes.infra.registry import Pass, register_pass

#: Elements: LLVM does not unroll longer rows, and vectorises along them by itself.
_SHORT = 32
#: Bytes: LLVM interleaves shorter rows, or they would leave most of a vector empty.
_LEAST = 32
#: Elements: several rows of up to this length fill a vector, by shuffles.
_FEW = 8
_KINDS = ("vectorize", "unroll")
_FOR, _LOAD, _STORE = (op.OPERATION_NAME for op in (scf.ForOp, memref.LoadOp, memref.StoreOp))


@register_pass("short-rows")
class ShortRows(Pass):
    """Annotates loops around short rows that are written element by element, and short rows that find a position."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            alone, whole = (ir.Attribute.parse(f"#llvm.loop_annotation<{kind} = <disable = true>>") for kind in _KINDS)
            for nested in kernel_modules(module):
                for op in walk(nested.operation):
                    if op.name == _FOR and _writes_short_rows(op):
                        op.attributes[LOOP_ANNOTATION] = alone
                    elif op.name == _FOR and _finds_a_position(op):
                        op.attributes[LOOP_ANNOTATION] = whole


def _writes_short_rows(outer: ir.Operation) -> bool:
    """Whether a loop contains one loop over a short row, which only writes contiguous elements, and no other stores or
    loops."""
    body = [op.operation for op in outer.regions[0].blocks[0].operations]
    rows = [op for op in body if op.name == _FOR]
    if len(rows) != 1 or any(op.name == _STORE or op.regions for op in body if op not in rows):
        return False
    (row,) = rows
    return not row.results and _is_along(row, _length(row))


def _finds_a_position(row: ir.Operation) -> bool:
    """Whether a loop over a short row updates values in memory and uses its induction variable as a number, as argmax
    does."""
    counter = row.regions[0].blocks[0].arguments[0]
    ops = [op.operation for op in row.regions[0].blocks[0].operations]
    kept = {op.operands[0] for op in ops if op.name == _LOAD} & {op.operands[1] for op in ops if op.name == _STORE}
    is_number = any(op.name == arith.IndexCastOp.OPERATION_NAME and op.operands[0] == counter for op in ops)
    return _FEW < _length(row) <= _SHORT and bool(kept) and is_number and not any(op.regions for op in ops)


def _length(loop: ir.Operation) -> int:
    """The iterations of a loop; 0 if they are not constant or the step is not 1."""
    first, end, step = (constant_of(value) for value in list(loop.operands)[:3])
    return int(end - first) if first is not None and end is not None and step == 1 else 0


def _is_along(row: ir.Operation, length: int) -> bool:
    """Whether a row is short, and its stores are contiguous and go to buffers that it does not read: such sums would
    depend on one another."""
    block = row.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    stores = [op for op in ops if op.name == _STORE]
    read = {op.operands[0] for op in ops if op.name == _LOAD}
    if length > _SHORT or any(op.regions for op in ops) or not stores:
        return False
    for store in stores:
        *_, last = store.operands
        kind = ir.MemRefType(store.operands[1].type)
        strides, _ = kind.get_strides_and_offset()
        if last != block.arguments[0] or strides[-1] != 1 or store.operands[1] in read:
            return False
        if length * kind.element_type.width <= 8 * _LEAST:
            return False
    return True
