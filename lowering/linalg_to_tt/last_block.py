"""Decides whether the last block of a row is written apart: behind the loop over a row's blocks, which is peeled, or,
where each block is a program's, in a branch.

    for i in range(0, 50257, 4096):           for i in range(0, 49152, 4096):
        load(x + i, mask=i < 50257)      →        load(x + i)
                                              load(x + 49152, mask=49152 < 50257)

Where rows are aligned, but their size is no multiple of a vector's, the mask of their bound splits a vector. Triton
then makes every access of the loop one element wide. In the peeled loop no block has a mask, nor has a program that is
not the last of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Turns, Value
from cuesta.sizes import Number

#: An argument of the kernel that is read or written, and the classes of its dims.
Access: TypeAlias = "tuple[Value, list[int]]"

#: Bytes of a thread's widest access.
_VECTOR = 16
#: The least blocks of a row whose last one is written apart.
_LEAST = 4


def turns_of(
    frame: Frame, classes: Sequence[int], accesses: Iterable[Access], strides: Mapping[Value, Sequence[Number]]
) -> list[Turns]:
    """The loops over all blocks along `classes`. `strides` are those of each argument, in elements."""
    every = frame.turns(classes)
    if frame.lead is not None and isinstance(every.end, int) and isinstance(every.step, int):
        last = every.end - every.end % every.step
        return [replace(every, end=last + 1, step=last), replace(every, begin=every.step, end=last, inside=True)]
    begin = last_block(frame, classes, accesses, strides)
    if begin is None:
        return [every]
    return [replace(every, end=begin, inside=True), replace(every, begin=begin)]


def last_block(
    frame: Frame, classes: Sequence[int], accesses: Iterable[Access], strides: Mapping[Value, Sequence[Number]]
) -> int | None:
    """Where the last block along a looped class begins, if the loop is to be peeled; None if not. `strides` are those
    of each argument, in elements."""
    (c, *others) = classes
    return None if others else _begin_of_last(frame, c, accesses, strides)


def row_with_last_block(
    frame: Frame, parallel: Sequence[int], accesses: Sequence[Access], strides: Mapping[Value, Sequence[Number]]
) -> int | None:
    """The class of rows whose last block programs write in a branch of their own; None if there is none."""
    return next((c for c in parallel if _begin_of_last(frame, c, accesses, strides) is not None), None)


def _begin_of_last(
    frame: Frame, c: int, accesses: Iterable[Access], strides: Mapping[Value, Sequence[Number]]
) -> int | None:
    """Where the last block along class c begins, if it is worth code of its own; None if not."""
    size, block = frame.sizes[c], frame.blocks[c]
    if not isinstance(size, int) or size < _LEAST * block or size % block == 0:
        return None
    return size - size % block if any(_parts_vectors(*a, c, size, strides[a[0]]) for a in accesses) else None


def _parts_vectors(argument: Value, classes: Sequence[int], c: int, size: int, strides: Sequence[Number]) -> bool:
    """Whether an access walks aligned rows along class c whose size is no multiple of a vector's."""
    wide = _VECTOR // byte_size(spelling_of(argument))
    others = [stride for own, stride in zip(classes, strides, strict=True) if own != c]
    aligned = all(isinstance(stride, int) and stride % wide == 0 for stride in others)
    return bool(others) and c in classes and aligned and strides[classes.index(c)] == 1 and size % wide != 0
