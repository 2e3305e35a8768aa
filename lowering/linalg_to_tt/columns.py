"""Loads what a block's rows share, such as a factor of each column, once for each row.

    %f = tt.load %factors + %columns : 1x128            %f = tt.load %factors + broadcast(%columns) : 8x128
    %b = tt.broadcast %f : 8x128                   →

Triton lays a tensor's elements out for the threads by what one load can take: 8x128 elements of two bytes by eights. Of
128 factors each of 128 threads would load one. Triton then takes the factors' layout for both, and so sends the block
through shared memory, and the result back: two more waits for the other threads, of which the first is before the
factors are loaded at all. Loads of all rows have the block's layout, and find the factors in the nearest cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import arith, linalg
from cuesta.dialects import tt
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter
from cuesta.lowering.linalg_to_tt.last_block import Access
from cuesta.lowering.linalg_to_tt.memory.row_ends import WIDE, load_mask

#: The most elements of a block that a thread has. With more the registers do not suffice: 32 of a norm's spilled.
_MOST = 8
#: Ops of an instruction or two, which may be done for each row.
_CHEAP = {
    op.OPERATION_NAME
    for op in (
        *(arith.AddFOp, arith.SubFOp, arith.MulFOp, arith.NegFOp, arith.MaximumFOp, arith.MinimumFOp),
        *(arith.ExtFOp, arith.TruncFOp, arith.ConstantOp, linalg.YieldOp),
    )
}


def load_columns(writer: KernelWriter, threads: int) -> None:
    """Loads, for all rows of a block, what a kernel reads by columns, where a thread would otherwise have fewer of its
    elements than it loads of the block at once. A kernel that writes no block, as a product by a vector, has no use for
    the block's layout but to read it."""
    frame = writer.frame
    if not any(set(frame.axes) <= set(classes) for _, _, _, classes in writer.outputs(writer.nodes)):
        return
    block = frame.shape(frame.axes)
    if math.prod(block) > threads * _MOST:
        return
    at_once = max((_at_once(writer, *access) for access in writer.accesses()), default=1)
    for argument, classes in _by_columns(writer):
        is_known = (argument, tuple(classes)) in writer.loaded
        if not is_known and threads <= math.prod(frame.shape(classes)) < threads * at_once:
            mask = load_mask(frame, argument, writer.pointers[argument], classes, writer.strides[argument])
            pointer = stretched(writer.pointer(argument, classes), block)
            loaded = tt.load(pointer, None if mask is None else stretched(mask, block))
            writer.loaded[argument, tuple(classes)] = loaded


def _by_columns(writer: KernelWriter) -> list[Access]:
    """What is read along the last axis of the block and not along all others, but for what is computed with once."""
    axes, once = set(writer.frame.axes), _computed_once(writer)
    last = set(writer.frame.axes[-1:])
    read = [access for node in writer.nodes for access in node.inputs if access[0] in writer.pointers]
    return [(x, own) for x, own in read if x not in once and last <= set(own) and not axes <= set(own)]


def _computed_once(writer: KernelWriter) -> set[Value]:
    """What ops compute with that have not all axes of the block, where they are dear, are stored, or feed such ops."""
    axes = set(writer.frame.axes)
    once = {result for _, result, _, _ in writer.outputs(writer.nodes)}
    for node in reversed(writer.nodes):
        is_cheap = not node.reduced and all(op.name in _CHEAP for op in body_ops(node.op))
        if not axes <= set(node.classes) and not (is_cheap and once.isdisjoint(node.op.results)):
            once.update(x for x, _ in node.inputs)
    return once


def _at_once(writer: KernelWriter, argument: Value, classes: Sequence[int]) -> int:
    """How many elements of an argument that has all axes of the block a thread loads at once; 1 for others."""
    axes, strides = writer.frame.axes, writer.strides[argument]
    if not axes or not set(axes) <= set(classes) or strides[classes.index(axes[-1])] != 1:
        return 1
    others = [stride for stride in strides if stride != 1]
    return math.gcd(WIDE // byte_size(spelling_of(argument)), *(n for n in others if isinstance(n, int)))
