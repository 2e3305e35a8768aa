"""Computes sums of rows that are zero but for one known position from what is there, without a loop.

    %hit = arith.cmpi eq, %position, %target               %position = min(max(%target, 0), 50256)
    %row = arith.select %hit, %v, 0                    →   %hit = arith.cmpi eq, %position, %target
    %sum = sum of %row                                     %sum = arith.select %hit, %v, 0

A loss's gradient by log-probabilities is such a row, and the gradient of log_softmax subtracts its sum. A loop over the
row's classes reads nothing, but took six instructions for each, beside sixteen of the loop that writes the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import arith, ir, linalg
from cuesta.dialects import maker, tt
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.dialects.upstream_fields import INDEX_DIM, PREDICATE, constant_of
from cuesta.lowering.linalg_to_tt import reduction
from cuesta.lowering.linalg_to_tt.frame import Value
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node
from cuesta.lowering.linalg_to_tt.last_block import Access
from cuesta.lowering.linalg_to_tt.one_loop.makers import is_op, made

#: Ops that give zero, or false, where their operand is.
_KEEPING_ZERO = {
    op.OPERATION_NAME
    for op in (arith.ExtUIOp, arith.ExtSIOp, arith.ExtFOp, arith.TruncFOp, arith.UIToFPOp, arith.SIToFPOp)
}
#: Ops of two integers, and what gives the one where it is the other.
_NEUTRAL = {arith.AddIOp.OPERATION_NAME: 0, arith.MulIOp.OPERATION_NAME: 1}


def write_one_hot(writer: KernelWriter, loops: Sequence[int]) -> None:
    """Computes such sums along the class of a kernel's only loop, if its block has no other axis."""
    if len(loops) != 1 or writer.frame.axes != [*loops]:
        return
    for node in writer.nodes:
        if node.reduced == [*loops] and is_op(node, arith.AddFOp, (1, 0)):
            numbers = _numbers_of_tensor(writer, node.inputs[0][0], loops[0])
            if numbers is not None:
                _write(writer, node, *numbers)


def _write(writer: KernelWriter, node: Node, numbers: Value, classes: Sequence[int]) -> None:
    """Computes what a sum adds at the position that `numbers` says for each row: all else is zero."""
    (c,), frame, own = node.reduced, writer.frame, writer.copy()
    size, needed = frame.sizes[c], own.needed([node]) - {node.op}
    before = [other for other in own.nodes if other.op in needed]
    if not isinstance(size, int) or any(other.reduced for other in before):
        return
    own.frame.axes, own.frame.lead = [], None
    own.frame.masks.pop(c, None)
    number = own.load(numbers, classes)
    shape, kind = shape_of(number), element_of(number)
    first, last = (tt.full(shape, kind, bound) for bound in (0, size - 1))
    position = arith.minsi(arith.maxsi(number, first), last)
    if kind != frame.index_type:
        position = arith.trunci(tt.block_type(shape, frame.index_type), position)
    own.frame.positions[c] = position
    for other in before:
        own.emit(other)
    (element,) = own.contributions(node, reduction.analyse(node.op))
    writer.blocks[node.op.results[0]] = element


def _numbers_of_tensor(writer: KernelWriter, tensor: Value, c: int) -> Access | None:
    """The argument that has each row's only position along class c where a tensor may be other than zero; None if
    there is none."""
    node = made(writer, tensor)
    if node is None or node.reduced:
        return None
    results = list(node.op.results)
    return _numbers(writer, node, list(body_ops(node.op))[-1].operands[results.index(tensor)], c)


def _numbers(writer: KernelWriter, node: Node, x: Value, c: int) -> Access | None:
    """The same for a number of a node's body."""
    if isinstance(x.owner, ir.Block):
        return _numbers_of_tensor(writer, node.inputs[ir.BlockArgument(x).arg_number][0], c)
    op = x.owner
    if op.name in _KEEPING_ZERO:
        return _numbers(writer, node, op.operands[0], c)
    if op.name == arith.SelectOp.OPERATION_NAME and constant_of(op.operands[2]) == 0:
        return _numbers(writer, node, op.operands[0], c)
    if op.name == arith.AndIOp.OPERATION_NAME:
        return next((found for y in op.operands if (found := _numbers(writer, node, y, c)) is not None), None)
    if op.name != arith.CmpIOp.OPERATION_NAME:
        return None
    predicate, (left, right) = arith.CmpIPredicate(PREDICATE.of(op)), op.operands
    if predicate == arith.CmpIPredicate.ne and constant_of(right) == 0:
        return _numbers(writer, node, left, c)
    if predicate != arith.CmpIPredicate.eq:
        return None
    sides = ((left, right), (right, left))
    return next((found for a, b in sides if _is_position(node, a, c) and (found := _of_rows(node, b, c))), None)


def _is_position(node: Node, x: Value, c: int) -> bool:
    """Whether a number of a node's body is the position along class c."""
    while not isinstance(x.owner, ir.Block) and (x.owner.name in _NEUTRAL or maker(x, arith.IndexCastOp) is not None):
        neutral = _NEUTRAL.get(x.owner.name)
        others = [y for y in x.owner.operands if neutral is None or constant_of(y) != neutral]
        if len(others) != 1:
            return False
        (x,) = others
    index = maker(x, linalg.IndexOp)
    return index is not None and node.classes[INDEX_DIM.of(index)] == c


def _of_rows(node: Node, x: Value, c: int) -> Access | None:
    """The argument of the kernel of which a number of a node's body is an element, where this differs only from row to
    row; None for other numbers."""
    if not isinstance(x.owner, ir.Block):
        return None
    tensor, classes = node.inputs[ir.BlockArgument(x).arg_number]
    return (tensor, classes) if isinstance(tensor.owner, ir.Block) and c not in classes else None
