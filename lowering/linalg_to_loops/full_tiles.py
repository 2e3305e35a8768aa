"""Gives full tiles loops with constant bounds, in kernels whose tile sizes are not constant.

func.func @k__tiles(%size, %lo, %hi) {       func.func @k__tiles(%size, %lo, %hi) {
  scf.for %tile = %lo to %hi {                 scf.if (%size < 64) { call @k__rest(%size, %lo, %hi) }
    %n = min(%size - %tile * 64, 64)           else { scf.for %tile = %lo to %hi {
    scf.for %i = 0 to %n {…}             →       %n = min(%size - %tile * 64, 64)
  }                                              scf.if (%n == 64) { scf.for %i = 0 to 64 {…} }
}                                                else { call @k__rest(%size, %tile, %tile + 1) }
                                               } }
                                             }
                                             func.func @k__rest(%size, %lo, %hi): as it was

If a size is at least a tile, all tiles but the last ones are full. After a loop whose bound is not constant, LLVM emits
a loop with narrower vectors and a scalar loop. Their constants would take registers from the main loop, so partial
tiles are computed in a separate function.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from cuesta._mlir import arith, func, ir, memref, scf
from cuesta.dialects import kernel_fields, maker, walk
from cuesta.dialects.kernel_module import REST, TILES, kernel_modules, sized
from cuesta.dialects.types import index_value
from cuesta.dialects.upstream_fields import SYM_NAME, constant_of
from cuesta.passes.infra.registry import Pass, register_pass


def is_cut(function: func.FuncOp) -> bool:
    """Whether a kernel's tiles have sizes that are not constant: sizes are symbolic, or the last tiles are smaller."""
    views = (op for op in walk(function.operation) if op.name == memref.SubViewOp.OPERATION_NAME)
    return sized(function) or any(not view.results[0].type.has_static_shape for view in views)


@register_pass("full-tiles")
class FullTiles(Pass):
    """Gives full tiles loops with constant bounds."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for nested in kernel_modules(module):
                for function in list(nested.body.operations):
                    if isinstance(function, func.FuncOp) and function.name.value.endswith(TILES) and is_cut(function):
                        _split(function)


def _split(function: func.FuncOp) -> None:
    """Makes a function's loop over tiles compute full tiles, and call a copy of the function for partial ones."""
    entry = function.regions[0].blocks[0]
    loops = [op for op in entry.operations if isinstance(op, scf.ForOp) and _widths(op)]
    if len(loops) != 1:
        return
    (loop,) = loops
    name = function.name.value.removesuffix(TILES) + REST
    with ir.InsertionPoint(function), function.location:
        rest = function.operation.clone()
    SYM_NAME.put(rest, name)
    for shared in (kernel_fields.TILES, kernel_fields.WORK):
        shared.drop(rest)
    widths = _widths(loop)
    given = list(entry.arguments)[:-2]
    ops = [op.operation for op in loop.body.operations]
    last = max(i for i, op in enumerate(ops) if op.results and op.results[0] in widths)
    with ir.InsertionPoint.after(ops[last]), loop.location:
        numbers = {extent: index_value(width) for extent, width in widths.items()}
        is_whole = [arith.cmpi(arith.CmpIPredicate.eq, extent, width) for extent, width in numbers.items()]
        choice = scf.IfOp(functools.reduce(arith.andi, is_whole), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            end = scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            tile = loop.induction_variable
            _call(name, [*given, tile, arith.addi(tile, index_value(1))])
    for op in ops[last + 1 : -1]:
        op.move_before(end.operation)
    _replace(choice.regions[0], numbers)
    _skip_where_none_is_whole(loop, [(_size_of(extent), width) for extent, width in widths.items()], name)


def _skip_where_none_is_whole(loop: scf.ForOp, sizes: list[tuple[ir.Value, int]], rest: str) -> None:
    """Has @rest compute all tiles if a size is less than a full tile."""
    arguments = list(loop.operation.parent.regions[0].blocks[0].arguments)
    with ir.InsertionPoint(loop), loop.location:
        is_less = [arith.cmpi(arith.CmpIPredicate.slt, size, index_value(width)) for size, width in sizes]
        choice = scf.IfOp(functools.reduce(arith.ori, is_less), has_else=True)
        with ir.InsertionPoint(choice.then_block):
            _call(rest, arguments)
        with ir.InsertionPoint(choice.else_block):
            end = scf.YieldOp([])
    loop.operation.move_before(end.operation)


def _call(name: str, arguments: list[ir.Value]) -> None:
    func.CallOp([], ir.FlatSymbolRefAttr.get(name), arguments)
    scf.YieldOp([])


def _size_of(extent: ir.Value) -> ir.Value:
    """%size of min(%size - start, width)."""
    return extent.owner.operands[0].owner.operands[0]


def _widths(loop: scf.ForOp) -> dict[ir.Value, int]:
    """Element count of a tile that bounds a loop → element count of a full tile."""
    found = {}
    for view in loop.body.operations:
        op = view.operation
        if op.name != arith.MinSIOp.OPERATION_NAME or not any(_bounds_a_loop(use) for use in op.results[0].uses):
            continue
        left, width = op.operands
        if maker(left, arith.SubIOp) is not None and (number := constant_of(width)) is not None:
            found[op.results[0]] = int(number)
    return found


def _bounds_a_loop(use: ir.OpOperand) -> bool:
    return bool(use.owner.operation.name == scf.ForOp.OPERATION_NAME and use.operand_number == 1)


def _replace(region: ir.Region, numbers: Mapping[ir.Value, ir.Value]) -> None:
    for block in region.blocks:
        for inner in block.operations:
            for op in (inner.operation, *walk(inner.operation)):
                if op.name == memref.SubViewOp.OPERATION_NAME:
                    continue  # no loop needs it, and upstream's verifier refuses some rank-reducing subviews
                for i, operand in enumerate(op.operands):
                    if operand in numbers:
                        op.operands[i] = numbers[operand]
