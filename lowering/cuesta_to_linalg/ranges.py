"""Computes the ranges of a graph's integers from the ops that produce them.

    %0 = cuesta.iota {start = 0, step = 8} : tensor<255xi64>       0 … 2032
    %1 = cuesta.iota {start = 0, step = 1} : tensor<16xi64>        0 … 15
    %2 = cuesta.add(%0, %1)                                        0 … 2047

An index that is known to be within a tensor is neither wrapped nor clamped, so that LLVM and Triton see that the
elements of a window, or of half a row, are contiguous. What is chosen by position is evaluated: where the first half of
a row has one range, and the second another, the range of both would say too little.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cuesta._mlir import ir
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.shape import Constant, Iota, Reshape
from cuesta.dialects.cuesta.views import SELECTS_ELEMENTS
from cuesta.dialects.types import shape_of, spelling_of, static_shape
from cuesta.sizes import Size

#: The least and the greatest value.
Range: TypeAlias = tuple[int, int]
Array: TypeAlias = NDArray[Any]

_INTEGERS = ("i64", "i32")
#: The most elements of a choice that is evaluated.
_MOST = 1 << 14
#: Op → the elements of its result, given those of its operands.
_NUMBERS: dict[str, Callable[..., Array]] = {
    pointwise.OPS["add"].OPERATION_NAME: np.add,
    pointwise.OPS["sub"].OPERATION_NAME: np.subtract,
    pointwise.OPS["lt"].OPERATION_NAME: np.less,
    pointwise.OPS["ge"].OPERATION_NAME: np.greater_equal,
    pointwise.Where.OPERATION_NAME: np.where,
}
#: Op → the range of its result, given those of its operands.
_RANGES: dict[str, Callable[..., Range]] = {
    pointwise.OPS["add"].OPERATION_NAME: lambda x, y: (x[0] + y[0], x[1] + y[1]),
    pointwise.OPS["sub"].OPERATION_NAME: lambda x, y: (x[0] - y[1], x[1] - y[0]),
    pointwise.OPS["minimum"].OPERATION_NAME: lambda x, y: (min(x[0], y[0]), min(x[1], y[1])),
    pointwise.OPS["maximum"].OPERATION_NAME: lambda x, y: (max(x[0], y[0]), max(x[1], y[1])),
}


def range_of(value: ir.Value) -> Range | None:
    """The least and the greatest value that an element of `value` can have; None if they are unknown or do not fit in
    32 bits."""
    found = _range_of(value)
    return found if found is not None and found[0] >= -(1 << 31) and found[1] < 1 << 31 else None


def _range_of(value: ir.Value) -> Range | None:
    op = value.owner
    if isinstance(op, ir.Block) or spelling_of(value) not in _INTEGERS:
        return None
    if any(isinstance(n, Size) for n in shape_of(value)):
        return None
    if Iota.matches(op):
        (count,) = static_shape(value)
        start, step = int(Iota.start.of(op)), int(Iota.step.of(op))
        ends = (start, start + step * max(count - 1, 0))
        return min(ends), max(ends)
    if Constant.matches(op):
        value = int(Constant.value.of(op))
        return value, value
    if op.name in SELECTS_ELEMENTS:
        return range_of(op.operands[0])
    if pointwise.Where.matches(op) and (chosen := _numbers(value)) is not None and chosen.size:
        return int(chosen.min()), int(chosen.max())
    if op.name not in _RANGES:
        return None
    ranges = [range_of(operand) for operand in op.operands]
    return None if None in ranges else _RANGES[op.name](*ranges)


def _numbers(value: ir.Value) -> Array | None:
    """The elements of what is chosen among sums of positions and constants; None for anything else, or too many."""
    op = value.owner
    shape = shape_of(value)
    if isinstance(op, ir.Block) or any(isinstance(n, Size) for n in shape) or math.prod(static_shape(value)) > _MOST:
        return None
    if Iota.matches(op):
        return int(Iota.start.of(op)) + int(Iota.step.of(op)) * np.arange(math.prod(static_shape(value)))
    if Constant.matches(op):
        return np.asarray(Constant.value.of(op))
    operands = [_numbers(x) for x in op.operands]
    known = [x for x in operands if x is not None]
    if len(known) < len(operands):
        return None
    if Reshape.matches(op):
        return known[0].reshape(static_shape(value))
    return _NUMBERS[op.name](*known) if op.name in _NUMBERS else None
