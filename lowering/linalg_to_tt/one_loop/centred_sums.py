"""Writes kernels of a sum and of the squares of what is summed less its mean, as one loop where there would be two.

    for each block of rows, the n-th:                       each place of the block has a mean and a sum of its own
        d = x - mean
        mean = mean + d / n
        squares = squares + d (x - mean)
        store(what x is made of)                            where another kernel reads it
    w = how many rows a place has had
    total = sum(w mean)                                     then the mean of all is known
    store(total), store(sum(squares + w (mean - total / R)²))

    for each block of rows: store(what is computed of x and both sums)        in a norm

Each place is summed by Welford's rule (B. P. Welford, Technometrics 4, 1962), and places are joined as Chan, Golub and
LeVeque join parts (1979). So the statistics of batch norm are computed in one pass: on an H200 those of 51 million
numbers of bf16 take 30 µs, and 55 in two loops. Reading the numbers takes 24. They are as close to the exact ones. A
norm over rows that no block holds reads them twice instead of three times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.dialects.upstream_fields import CONSTANT
from cuesta.lowering.linalg_to_tt import reduction
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node, Output
from cuesta.lowering.linalg_to_tt.last_block import last_block
from cuesta.lowering.linalg_to_tt.one_loop.makers import are_same, is_op, made, maker
from cuesta.sizes import Number


@dataclass(frozen=True)
class CentredSums:
    """The nodes of a kernel that has no others in its loop but what makes the numbers that are summed, `summed`, which
    have the classes `classes`."""

    total: Node
    mean: Node
    squares: Node
    summed: Value
    classes: list[int]


def find_centred_sums(writer: KernelWriter, loops: Sequence[int]) -> CentredSums | None:
    """The two sums of a kernel that walks the classes of `loops`; None for another kernel."""
    sums = [node for node in writer.nodes if node.reduced]
    if len(loops) != 1 or len(sums) != 2 or any(node.reduced != [*loops] or node.runs for node in sums):
        return None
    if last_block(writer.frame, loops, writer.accesses(), writer.strides) is not None:
        return None
    total, squares = sums
    square = maker(writer, squares, arith.AddFOp, (1, 0))
    difference = square and maker(writer, square, arith.MulFOp, (0, 0))
    if difference is None or not is_op(difference, arith.SubFOp, (0, 1)) or not is_op(total, arith.AddFOp, (1, 0)):
        return None
    (value, classes), (again, (mean, _)) = total.inputs[0], (difference.inputs[0][0], difference.inputs[1])
    divided = made(writer, mean)
    if divided is None or divided.inputs[0][0] != total.op.results[0]:
        return None
    if not _divides(divided, writer.frame.sizes[loops[0]]) or not are_same(writer, value, again):
        return None
    return CentredSums(total, divided, squares, value, classes)


def _divides(node: Node, count: Number) -> bool:
    """Whether a node divides by `count`."""
    ops = [*body_ops(node.op)]
    if [op.name for op in ops[:-1]] != [arith.ConstantOp.OPERATION_NAME, arith.DivFOp.OPERATION_NAME]:
        return False
    number, quotient, _ = ops
    argument = node.op.regions[0].blocks[0].arguments[0]
    return [*quotient.operands] == [argument, number.results[0]] and CONSTANT.of(number) == count


def write_centred_sums(writer: KernelWriter, found: CentredSums) -> None:
    """Writes the kernel."""
    (c,), frame = found.total.reduced, writer.frame
    shape, kind = frame.shape(found.classes), found.total.op.results[0].type.element_type
    nothing = tt.full(shape, kind, 0)
    loop, stores = frame.loop(frame.turns([c]), [nothing, nothing]), _stored_before(writer, c)
    with ir.InsertionPoint(loop.body), found.squares.op.location:
        scf.YieldOp(_turn(writer.copy(), found, stores, loop.induction_variable, *loop.inner_iter_args))
    mean, squares = loop.results
    rows = stretched(_rows(frame, c, kind), shape)
    _finish(writer, found.total, arith.mulf(mean, rows))
    writer.emit(found.mean)
    apart = arith.subf(mean, stretched(writer.value(found.mean.op.results[0]), shape))
    _finish(writer, found.squares, arith.addf(squares, arith.mulf(rows, arith.mulf(apart, apart))))
    writer.write_rest(c, stores)


def _stored_before(writer: KernelWriter, c: int) -> list[Output]:
    """The outputs along class c that wait for no sum. Memory that is read as well is written when all is read."""
    sums = {node.op for node in writer.nodes if node.reduced}
    read = {value for value, _ in writer.from_memory()}
    return [
        output
        for output in writer.outputs(writer.nodes)
        if c in output[3] and output[2] not in read and not sums & writer.needed([output[0]])
    ]


def _turn(
    own: KernelWriter, found: CentredSums, stores: Sequence[Output], start: Value, mean: Value, squares: Value
) -> list[Value]:
    """The means and the sums of squares with the block at `start`; `own` is a writer for this block alone, of which it
    writes `stores`."""
    (c,), frame = found.total.reduced, own.frame
    frame.place_in_loop([c], start)
    needed = own.needed([found.total, *(output[0] for output in stores)]) - {found.total.op}
    for node in own.nodes:
        if node.op in needed:
            own.emit(node)
    own.store_outputs(stores)
    is_there = isinstance(found.summed.owner, ir.Block)
    x = own.load(found.summed, found.classes) if is_there else own.value(found.summed)
    x, mask, kind = stretched(x, shape_of(mean)), frame.mask([c]), element_of(mean)
    if mask is not None:  # what is beyond the end changes nothing
        x = arith.select(stretched(mask, shape_of(mean)), x, mean)
    turn = arith.addi(arith.divsi(start, frame.scalar(frame.blocks[c])), frame.scalar(1))
    share = arith.divf(arith.constant(kind, 1.0), arith.sitofp(kind, turn))
    before = arith.subf(x, mean)
    mean = arith.addf(mean, arith.mulf(before, tt.splat(share, shape_of(mean))))
    return [mean, arith.addf(squares, arith.mulf(before, arith.subf(x, mean)))]


def _rows(frame: Frame, c: int, kind: ir.Type) -> Value:
    """How many of the rows of the class `c` each place of a block has had, as floats."""
    place = replace(frame, positions={}, masks={})
    place.axes = frame.axes
    place.place(c, None)
    block = frame.blocks[c]
    position = place.positions[c]
    behind = arith.subi(frame.scalars.block(frame.sizes[c] + block - 1, list(shape_of(position))), position)
    count = arith.divsi(behind, frame.scalars.block(block, list(shape_of(position))))
    return arith.sitofp(tt.block_type(shape_of(position), kind), count)


def _finish(writer: KernelWriter, node: Node, parts: Value) -> None:
    """Adds up the parts of a sum."""
    writer.finish([(node, reduction.analyse(node.op), [parts])])
