"""Begins the blocks of a row that a loop walks at the 16 bytes below the row, where rows begin anywhere.

                                                     first = row * 50265 / 8 * 8
                                                     before = row * 50265 - first
    for i in range(0, 50265, 4096):                  for i in (0, 49152):
        p = i + (0 … 4095)                    →          p = i + (0 … 4095) - before
        load(x + row * 50265 + p, p < 50265)             load(x + first + i + (0 … 4095), mask of both ends)
                                                     for i in range(4096, 49152, 4096):
                                                         load(x + first + i + (0 … 4095))

Of rows of an odd number of elements, each would be loaded and stored one element at a time. So they are moved 16 bytes
at a time, but for the stores of the bytes in which a row begins and ends. What is before a row is loaded, and never
used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cuesta._mlir import arith
from cuesta.dialects import tt
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Lead, Value, common_shape, shape_of
from cuesta.lowering.linalg_to_tt.last_block import Access
from cuesta.lowering.linalg_to_tt.memory.row_ends import WIDE, divisibility
from cuesta.sizes import Number

#: The least blocks of a row that begin below it: the first and the last have code of their own.
_LEAST = 4


def find_lead(
    frame: Frame,
    loops: Sequence[int],
    accesses: Iterable[Access],
    pointers: Mapping[Value, Value],
    strides: Mapping[Value, Sequence[Number]],
) -> Lead | None:
    """How far below its row the block of a program begins that walks rows in one loop; None where most of what it
    accesses along them would not be the better for it."""
    if len(loops) != 1 or frame.rows is not None:
        return None
    ((c,), found) = loops, list(accesses)
    along = [(x, classes) for x, classes in found if c in classes]
    ways = Counter(_way(frame, c, pointers[x], classes, strides[x]) for x, classes in along)
    way, count = max(ways.items(), key=lambda item: item[1], default=(None, 0))
    if way is None or 2 * count <= len(along):
        return None
    begin = [(x, classes) for x, classes in along if _way(frame, c, pointers[x], classes, strides[x]) == way]
    unit = max(WIDE // byte_size(spelling_of(x)) for x, _ in begin)
    if all(frame.scalars.divides(unit, stride) for _, stride in way) or not _has_room(frame, c, unit):
        return None
    offset = frame.offset(*zip(*way, strict=True))
    assert offset is not None
    first = rounded(frame, offset, unit)
    keys = frozenset((pointers[x], tuple(classes)) for x, classes in begin)
    return Lead(c, unit, first, arith.subi(offset, first), keys)


def _way(
    frame: Frame, c: int, pointer: Value, classes: Sequence[int], strides: Sequence[Number]
) -> tuple[tuple[int, Number], ...] | None:
    """The other classes of a tensor that is contiguous along class c, and their strides: equal for tensors whose rows
    begin equally far from 16 bytes. None if its rows do not, as a program has one of them at a time."""
    others = tuple((own, stride) for own, stride in zip(classes, strides, strict=True) if own != c)
    is_row = strides[classes.index(c)] == 1 and len(others) == len(classes) - 1 and divisibility(pointer) >= WIDE
    return others if is_row and others and not {own for own, _ in others} & {*frame.axes} else None


def _has_room(frame: Frame, c: int, unit: int) -> bool:
    """Whether the blocks of a row still reach its end where they begin below it."""
    size, block = frame.sizes[c], frame.blocks[c]
    return isinstance(size, int) and size >= _LEAST * block and block % unit == 0 and size % block + unit <= block + 1


def rounded(frame: Frame, positions: Value, unit: int) -> Value:
    """Positions rounded down to multiples of `unit`, as Triton's analysis can tell."""
    units = frame.scalars.block(unit, list(shape_of(positions)))
    return arith.muli(arith.divsi(positions, units), units)


def begins_below(frame: Frame, pointer: Value, classes: Sequence[int]) -> bool:
    """Whether the block of a tensor begins below its row."""
    return frame.lead is not None and (pointer, tuple(classes)) in frame.lead.accesses


def addresses(frame: Frame, pointer: Value) -> Value:
    """The addresses of a block that begins below its row."""
    lead, place = _placed(frame)
    offset = arith.addi(*common_shape([lead.first, place]))
    return tt.addptr(tt.splat(pointer, list(shape_of(offset))), offset)


def load_mask(frame: Frame, classes: Sequence[int]) -> Value | None:
    """The mask of a load from there: both ends of the row are loaded whole."""
    lead, place = _placed(frame)
    if lead.along not in frame.masks:
        return frame.mask(classes)
    end = rounded(frame, _plus(frame, lead.before, frame.sizes[lead.along] + lead.unit - 1), lead.unit)
    return _with_mask(frame, _compared(place, "slt", end), classes)


def store_masks(frame: Frame, classes: Sequence[int]) -> list[Value | None]:
    """The masks of the stores to there: of what can be stored whole, and of the rest."""
    lead, place = _placed(frame)
    if lead.along not in frame.masks:
        return [frame.mask(classes)]
    begin = rounded(frame, _plus(frame, lead.before, lead.unit - 1), lead.unit)
    end = rounded(frame, _plus(frame, lead.before, frame.sizes[lead.along]), lead.unit)
    whole = arith.andi(_compared(place, "sge", begin), _compared(place, "slt", end))
    rest = arith.ori(_compared(place, "slt", begin), _compared(place, "sge", end))
    rest = arith.andi(rest, frame.masks[lead.along])
    return [_with_mask(frame, part, classes) for part in (whole, rest)]


def _placed(frame: Frame) -> tuple[Lead, Value]:
    """Where the blocks of the row begin, and the places of the block that is worked on, from there."""
    assert frame.lead is not None
    assert frame.from_first is not None
    return frame.lead, frame.from_first


def _compared(places: Value, how: str, bound: Value) -> Value:
    return arith.cmpi(arith.CmpIPredicate[how], *common_shape([places, bound]))


def _plus(frame: Frame, positions: Value, number: Number) -> Value:
    return arith.addi(positions, frame.scalars.block(number, list(shape_of(positions))))


def _with_mask(frame: Frame, own: Value, classes: Sequence[int]) -> Value | None:
    """The mask of a block whose mask along the row is `own`."""
    assert frame.lead is not None
    return replace(frame, masks=frame.masks | {frame.lead.along: own}).mask(classes)
