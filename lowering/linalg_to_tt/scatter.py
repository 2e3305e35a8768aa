"""Lowers writes at computed positions: to stores if they set elements, to atomic ops if they combine.

    kernel.scatter(%v, %i, %x) {walks = [-1, 1], combine = "add"}
→   tt.atomic_rmw fadd, %x + (%i * stride + %j), %v

Every loop is parallel: which of several writes to one element is last, or in which order they add up, is undefined.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import CLASSES
from cuesta.dialects.kernel_module import operand_classes
from cuesta.dialects.kernel_scatter import KernelScatter, atomic_of
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter
from cuesta.sizes import Number


def load_operands(writer: KernelWriter, op: ir.Operation) -> None:
    """Loads the positions of a scatter, and what it writes if nothing is computed of it, before the kernel's nodes are
    written: a node that reads at computed positions waits twice for memory, and these loads then wait beside it."""
    for value, classes in zip(list(op.operands)[:-1], operand_classes(op), strict=False):
        if isinstance(value.owner, ir.Block):
            writer.load(value, classes)


def write_scatter(writer: KernelWriter, op: ir.Operation, sizes: Sequence[Number]) -> None:
    """Writes one scatter; `sizes` are those of the tensor that the scatter writes to. Raises Unsupported for a
    combination that has no atomic op."""
    frame, target = writer.frame, op.operands[-1]
    classes, accesses = CLASSES.of(op), operand_classes(op)
    values = [
        writer.load(v, a) if isinstance(v.owner, ir.Block) else writer.value(v)
        for v, a in zip(list(op.operands)[:-1], accesses, strict=False)
    ]
    total: Value | None = None
    for walk, size, stride in zip(KernelScatter.walks.of(op), sizes, writer.strides[target], strict=True):
        at = frame.positions[classes[walk]] if walk >= 0 else _position(frame, op, values[-walk], size)
        part = frame.scaled(at, stride)
        total = part if total is None else arith.addi(*common_shape([total, part]))
    assert total is not None
    shape, mask = frame.shape(classes), frame.mask(classes)
    pointer = tt.addptr(tt.splat(writer.pointers[target], shape), stretched(total, shape))
    value = stretched(values[0], shape)
    mask = None if mask is None else stretched(mask, shape)
    combine, spelling = KernelScatter.combine.of(op), KernelScatter.element.of(op)
    if combine == "set":
        tt.store(pointer, value, mask)
        return
    atomic = atomic_of(combine, spelling)
    if atomic is None:
        raise Unsupported(f"GPUs have no atomic {combine} of {spelling}, at {op.location}")
    tt.atomic_rmw(atomic, pointer, value, mask)


def _position(frame: Frame, op: ir.Operation, index: Value, size: Number) -> Value:
    """An index as a position in [0, size): clamped before it is narrowed, so that any index stays within the memory."""
    shape, element = list(shape_of(index)), element_of(index)
    last, count, zero = (_number(frame, n, index) for n in (size - 1, size, 0))
    if KernelScatter.wraps.is_on(op):
        below = arith.cmpi(arith.CmpIPredicate.slt, index, zero)
        index = arith.select(below, arith.addi(index, count), index)
    if not KernelScatter.in_range.is_on(op):
        index = arith.maxsi(arith.minsi(index, last), zero)
    if element == frame.index_type:
        return index
    kind = tt.block_type(shape, frame.index_type)
    return arith.extsi(kind, index) if element.width < frame.index_type.width else arith.trunci(kind, index)


def _number(frame: Frame, number: Number, like: Value) -> Value:
    """A size as a block of the shape and type of an index."""
    shape, element = list(shape_of(like)), element_of(like)
    if isinstance(number, int):
        return tt.full(shape, element, number)
    scalar = frame.scalar(number)
    if scalar.type != element:
        wider = scalar.type.width < element.width
        scalar = arith.extsi(element, scalar) if wider else arith.trunci(element, scalar)
    return tt.splat(scalar, shape)
