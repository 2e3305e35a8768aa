"""Reads at computed positions, and says to Triton how threads shall lie for them.

Triton lays the threads of a load along the dim in which it knows neighbours to be neighbours in memory. Where it knows
of none, it takes the first dim: the threads of a warp read 16 rows, two elements of each. And all that is computed from
there goes through shared memory to the threads that store it. So it is told to take the last dim.

Where rows of a block share positions (`passes/gpu/looked_up.py`), a thread has two elements side by side of several
rows. An address is then that in the first row, which takes a few instructions, and a number of bytes to the others,
which are part of the load:

    addptr(addptr(%x, %first_row * 520 + %position : 1x256), (0 … 7) * 520 : 8x1)
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import arith
from cuesta.dialects import tt
from cuesta.dialects.tt.fields import RUNS, RUNS_DIVIDE
from cuesta.dialects.tt.types import shape_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape, stretched
from cuesta.sizes import Number

_PAIR = 2


def gather(frame: Frame, base: Value, strides: Sequence[Number], positions: Sequence[Value], apart: bool) -> Value:
    """Elements of the tensor at `base` at computed positions. Lanes out of bounds may have any position, so the load is
    masked. Threads lie along the last axis, though neighbours may lie `apart`: as nothing is said to divide addresses,
    elements are loaded one by one."""
    pointer = _address(frame, base, positions, strides)
    shape = shape_of(pointer)
    if apart and len(shape) > 1 and shape[-1] > 1:
        RUNS.put(pointer.owner, [*[1] * (len(shape) - 1), _PAIR])
        RUNS_DIVIDE.put(pointer.owner, [1] * len(shape))
    held = [c for c, size in zip(frame.axes, shape, strict=False) if size > 1]
    mask = frame.mask(held)
    return tt.load(pointer, None if mask is None else stretched(mask, shape))


def pointer(frame: Frame, base: Value, classes: Sequence[int], strides: Sequence[Number]) -> Value:
    """The addresses of a block of the tensor at `base`, whose dims walk `classes`, in a block whose rows share computed
    positions."""
    found = _address(frame, base, [frame.positions[c] for c in classes], strides)
    shape, last = shape_of(found), frame.axes[-1:]
    if shape[-1] > _PAIR and [c for c, n in zip(classes, strides, strict=True) if n == 1] == last:
        RUNS.put(found.owner, [*[1] * (len(shape) - 1), _PAIR])
    return found


def _address(frame: Frame, base: Value, positions: Sequence[Value], strides: Sequence[Number]) -> Value:
    """The addresses of elements of the tensor at `base`. That of the first row is computed apart."""
    rows = {frame.positions[c]: c for c in frame.rows or () if c in frame.axes}
    first: Value | None = None
    found: list[Value] = []
    for position, stride in zip(positions, strides, strict=True):
        c = rows.get(position)
        if c is not None and frame.rows is not None:
            found.append(frame.scaled(frame.counted(c), stride))
            position = tt.splat(frame.rows[c], frame.unit)
        part = frame.scaled(position, stride)
        first = part if first is None else arith.addi(*common_shape([first, part]))
    address = tt.splat(base, frame.unit if first is None else shape_of(first))
    for offset in (first, *found):
        if offset is not None:
            address = tt.addptr(*common_shape([address, offset]))
    return address


def in_order(axes: Sequence[int], looked_up: Sequence[int]) -> list[int]:
    """The axes of a block whose rows share positions: rows come next to last. Triton lays threads along the last axis,
    then along the first. So a thread has several rows, rather than several positions."""
    *others, last = axes
    return [*(c for c in others if c in looked_up), *(c for c in others if c not in looked_up), last]
