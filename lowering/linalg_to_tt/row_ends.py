"""Masks of loads that do not split the 16 bytes in which a row ends.

    load(x + i, mask=i < 197)    →    load(x + i, mask=i < 200)        bf16, rows that begin 208 elements apart

Where rows begin at multiples of 16 bytes, these bytes can be loaded whole, because no page of memory ends within them,
not even behind the last row; what is beyond the row is never used. A mask that splits them would make every load of the
row one element wide.
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
    unit = WIDE // byte_size(spelling_of(value))
    fast = [c for c, stride in zip(classes, strides, strict=True) if stride == 1]
    others = [stride for stride in strides if stride != 1]
    aligned = _divisibility(pointer) % WIDE == 0
    if len(fast) != 1 or not aligned or not all(frame.scalars.divides(unit, s) for s in others):
        return None
    return fast[0]


def load_mask(
    frame: Frame, value: Value, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> Value | None:
    """The mask of a load of an argument, rounded up at the ends of rows that are followed by padding."""
    fast = along_rows(frame, value, pointer, classes, strides)
    others = [stride for stride in strides if stride != 1]
    has_room = fast is not None and bool(others) and all(_exceeds(stride, frame.sizes[fast]) for stride in others)
    return rounded_mask(frame, value, classes, fast if has_room else None)


def _exceeds(stride: Number, size: Number) -> bool:
    return isinstance(stride, int) and isinstance(size, int) and stride > size


def rounded_mask(frame: Frame, value: Value, classes: Sequence[int], fast: int | None) -> Value | None:
    """The mask of a load along `classes`, rounded up to 16 bytes along the class `fast`; None where none is needed."""
    unit = WIDE // byte_size(spelling_of(value))
    if fast is None or fast not in frame.masks or frame.scalars.divides(unit, frame.sizes[fast]):
        return frame.mask(classes)
    positions, size = frame.positions[fast], frame.sizes[fast]
    bound = frame.scalars.block((size + unit - 1) // unit * unit, list(shape_of(positions)))
    own = arith.cmpi(arith.CmpIPredicate.slt, positions, bound)
    return replace(frame, masks=frame.masks | {fast: own}).mask(classes)


def _divisibility(pointer: Value) -> int:
    """The number of bytes of which the address of an argument is known to be a multiple."""
    argument = ir.BlockArgument(pointer)
    attributes = tt.Func.arg_attrs.of(argument.owner.owner)[argument.arg_number]
    return tt.DIVISIBILITY.find_in(attributes) or 1
