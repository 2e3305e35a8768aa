"""Loads and stores a program's block of an argument, in the order of the argument's memory.

    %v = tt.load %x + 4 * %i + 16 * %k + %j : 16x4x4     →     %v = tt.load %x + 16 * %k + 4 * %i + %j : 4x16x4
       i, k, j                                                    k, i, j
                                                               %w = tt.trans %v : 16x4x4

Triton lays the threads of a warp along the axis whose elements are neighbours, then along the first axis, the second,
and so on. So where that one axis is short, the first axis is to be the next in memory: else neighbouring threads access
a few bytes each, far from one another.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta.dialects import tt
from cuesta.dialects.tt.types import shape_of
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.memory import lookups, row_starts
from cuesta.lowering.linalg_to_tt.memory.row_ends import WIDE, load_mask, store_masks
from cuesta.sizes import Number

#: Bytes that memory moves at once: threads that access so many neighbours do as well as if all were neighbours.
_SECTOR = 32
#: Bytes within which the next axis in memory has to go on, that of a line of the nearest cache.
_LINE = 128


def pointer_to(frame: Frame, base: Value, classes: Sequence[int], strides: Sequence[Number]) -> Value:
    """The addresses of a block of an argument that begins at `base`."""
    if frame.rows is not None:
        return lookups.pointer(frame, base, classes, strides)
    if row_starts.begins_below(frame, base, classes):
        return row_starts.addresses(frame, base)
    offset = frame.offset(classes, strides)
    shape = frame.unit if offset is None else list(shape_of(offset))
    pointer = tt.splat(base, shape)
    return pointer if offset is None else tt.addptr(pointer, offset)


def load(frame: Frame, argument: Value, base: Value, classes: Sequence[int], strides: Sequence[Number]) -> Value:
    """A block of `argument`, which begins at `base`."""
    axes = axes_in_memory(frame, argument, classes, strides)
    if axes is not None and frame.placed.keys() >= set(classes):
        loaded = load(frame.along(axes), argument, base, classes, strides)
        return tt.trans(loaded, [axes.index(c) for c in frame.axes])
    pointer = pointer_to(frame, base, classes, strides)
    is_below = row_starts.begins_below(frame, base, classes)
    mask = row_starts.load_mask(frame, classes) if is_below else load_mask(frame, argument, base, classes, strides)
    if mask is not None:
        pointer, mask = common_shape([pointer, mask])
    return tt.load(pointer, mask)


def store(
    frame: Frame, argument: Value, base: Value, classes: Sequence[int], strides: Sequence[Number], value: Value
) -> None:
    """Stores a block of `argument`, which begins at `base`."""
    shape = frame.shape(classes)
    pointer, stored = stretched(pointer_to(frame, base, classes, strides), shape), stretched(value, shape)
    is_below = row_starts.begins_below(frame, base, classes)
    parts = row_starts.store_masks(frame, classes) if is_below else store_masks(frame, argument, base, classes, strides)
    for mask in parts:
        tt.store(pointer, stored, None if mask is None else stretched(mask, shape))


def axes_in_memory(
    frame: Frame, argument: Value, classes: Sequence[int], strides: Sequence[Number]
) -> list[int] | None:
    """The order of a block's axes in which neighbouring threads access neighbouring elements of an argument; None where
    the block's own is as good."""
    held = {c: n for c, n in zip(classes, strides, strict=True) if c in frame.axes and isinstance(n, int)}
    if len(held) < 3 or frame.rows is not None:
        return None
    fast, *others = sorted(held, key=held.__getitem__)
    width = byte_size(spelling_of(argument))
    if held[fast] != 1 or frame.blocks[fast] * width >= _SECTOR or held[others[0]] * width >= _LINE:
        return None
    own = [c for c in frame.axes if c in others]
    return None if own == others else [*others, *(c for c in frame.axes if c not in held), fast]


def axes_to_store(frame: Frame, argument: Value, classes: Sequence[int], strides: Sequence[Number]) -> list[int] | None:
    """The same for the axes of a kernel's block, which writes an argument. What `store-pairs` merges, because a thread
    can store more, stays side by side."""
    order = axes_in_memory(frame, argument, classes, strides)
    if order is None:
        return None
    second, *others, fast = order
    pair = frame.blocks[fast]
    is_masked = any(not frame.scalars.divides(frame.blocks[c], frame.sizes[c]) for c in order)
    is_pair = pair * byte_size(spelling_of(argument)) < WIDE and strides[classes.index(second)] == pair
    return [*others, second, fast] if is_pair and not is_masked else order
