"""Masks of loads and stores that do not split the 16 bytes in which a row ends.

    load(x + i, mask=i < 197)     →    load(x + i, mask=i < 200)        bf16, rows that begin 208 elements apart

    store(x + i, mask=i < 197)    →    store(x + i, mask=i < 192)
                                       store(x + i, mask=192 <= i < 197)

Where rows begin at multiples of 16 bytes, these bytes can be loaded whole, because no page of memory ends within them,
not even behind the last row; what is beyond the row is never used. A mask that splits them would make every load of the
row one element wide. So would it every store, of which a thread has eight neighbours: 32 threads would then write to 32
places at once, eight times. What is beyond the row may be another tensor's, so the bytes in which it ends are stored
apart. Rows that begin at multiples of eight bytes, or four, are read and written in so many at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.dialects.tt.types import shape_of
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value
from cuesta.sizes import Number

#: Bytes of the widest load.
WIDE = 16


def along_rows(
    frame: Frame, value: Value, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> int | None:
    """The class along which an argument is contiguous, in rows that begin at multiples of 16 bytes; None if there is
    none."""
    fast, unit = _rows(frame, value, pointer, classes, strides)
    return fast if unit * byte_size(spelling_of(value)) == WIDE else None


def _rows(
    frame: Frame, value: Value, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> tuple[int | None, int]:
    """The class along which an argument is contiguous, and the most elements at whose multiples all rows begin: 16
    bytes at most. None and 1 where there is no such class."""
    width = byte_size(spelling_of(value))
    fast = [c for c, stride in zip(classes, strides, strict=True) if stride == 1]
    if frame.lead is not None and frame.lead.along in fast:
        return None, 1
    others = [stride for stride in strides if stride != 1]
    unit = min(WIDE, divisibility(pointer)) // width
    while unit > 1 and not all(frame.scalars.divides(unit, s) for s in others):
        unit //= 2
    return (fast[0], unit) if len(fast) == 1 and unit > 1 else (None, 1)


def load_mask(
    frame: Frame, value: Value, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> Value | None:
    """The mask of a load of an argument, rounded up at the ends of rows that are followed by padding."""
    fast, unit = _rows(frame, value, pointer, classes, strides)
    others = [stride for stride in strides if stride != 1]
    has_room = fast is not None and bool(others) and all(_exceeds(stride, frame.sizes[fast]) for stride in others)
    return rounded_mask(frame, classes, fast if has_room else None, unit)


def store_masks(
    frame: Frame, value: Value, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> list[Value | None]:
    """The masks of the stores that write an argument: one, or one for what can be stored whole and one for the rest."""
    fast, unit = _rows(frame, value, pointer, classes, strides)
    if fast is None or fast not in frame.masks or frame.blocks[fast] < unit:
        return [frame.mask(classes)]
    size, positions = frame.sizes[fast], frame.positions[fast]
    if frame.scalars.divides(unit, size) or (isinstance(size, int) and size < unit):
        return [frame.mask(classes)]
    whole = frame.scalars.block(size // unit * unit, list(shape_of(positions)))
    before = arith.cmpi(arith.CmpIPredicate.slt, positions, whole)
    behind = arith.cmpi(arith.CmpIPredicate.sge, positions, whole)
    parts = (before, arith.andi(behind, frame.masks[fast]))
    return [replace(frame, masks=frame.masks | {fast: part}).mask(classes) for part in parts]


def _exceeds(stride: Number, size: Number) -> bool:
    return isinstance(stride, int) and isinstance(size, int) and stride > size


def rounded_mask(frame: Frame, classes: Sequence[int], fast: int | None, unit: int) -> Value | None:
    """The mask of a load along `classes`, rounded up to a multiple of `unit` along the class `fast`; None where none is
    needed."""
    if fast is None or fast not in frame.masks or frame.scalars.divides(unit, frame.sizes[fast]):
        return frame.mask(classes)
    positions, size = frame.positions[fast], frame.sizes[fast]
    bound = frame.scalars.block((size + unit - 1) // unit * unit, list(shape_of(positions)))
    own = arith.cmpi(arith.CmpIPredicate.slt, positions, bound)
    return replace(frame, masks=frame.masks | {fast: own}).mask(classes)


def divisibility(pointer: Value) -> int:
    """The number of bytes of which the address of an argument is known to be a multiple."""
    argument = ir.BlockArgument(pointer)
    attributes = tt.Func.arg_attrs.of(argument.owner.owner)[argument.arg_number]
    return tt.DIVISIBILITY.find_in(attributes) or 1
