"""Represents the values of a kernel at the tt level as numpy arrays.

A value is an array with a leading axis of programs, then the dims of its block. An axis along which
the value is the same everywhere may have size 1: splats, constants and broadcasts cost nothing, and
numpy's own broadcasting does the rest.

    f64, f32, f16   float64, float32, float16
    bf16            float32 arrays that hold only numbers that bf16 has; rounded after every op
    i1              bool
    i8 … i64        int8 … int64, viewed as unsigned by unsigned ops
    index, pointers int64
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from cuesta._mlir import ir
from cuesta.dialects.tt.types import element_of, is_pointer
from cuesta.errors import CuestaError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_REGISTER: dict[str, type[np.generic]] = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": np.float32,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "i1": np.bool_,
    "index": np.int64,
}
_MEMORY = _REGISTER | {"bf16": np.uint16}
_BF16_HALF, _BF16_QUIET = np.uint32(0x7FFF), np.uint32(0x00400000)


class InterpreterError(CuestaError):
    """A kernel of the tt level does something that its memory or the interpreter does not allow. Names the op."""


class OutsideMemory(InterpreterError):
    """A kernel reads or writes outside of its arguments' memory."""


def spelling(x: ir.Value | ir.Type) -> str:
    """The element type as the tables here name it; "ptr" for pointers of any type."""
    return "ptr" if is_pointer(x) else str(element_of(x))


def register_dtype(name: str) -> np.dtype[Any]:
    """The dtype of arrays that hold values of element type `name`. Raises InterpreterError for an unknown type."""
    if name == "ptr":
        return np.dtype(np.int64)
    if name not in _REGISTER:
        raise InterpreterError(f"the interpreter has no {name}; it has {', '.join(_REGISTER)}")
    return np.dtype(_REGISTER[name])


def memory_dtype(name: str) -> np.dtype[Any]:
    """The dtype of memory that holds elements of type `name`."""
    register_dtype(name)
    return np.dtype(_MEMORY[name])


def from_memory(x: Array, name: str) -> Array:
    """Converts loaded elements to the form that ops compute on."""
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32) if name == "bf16" else x


def to_memory(x: Array, name: str) -> Array:
    """The inverse of `from_memory`."""
    if name == "bf16":
        return (np.ascontiguousarray(x).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return x


def to_bf16(x: Array) -> Array:
    """float32 rounded to the nearest number that bf16 has, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + (_BF16_HALF + odd)) & np.uint32(0xFFFF0000)
    nan = np.isnan(x)
    if nan.any():
        rounded = np.where(nan, (bits & np.uint32(0xFFFF0000)) | _BF16_QUIET, rounded)
    return rounded.view(np.float32).reshape(x.shape)


def held(x: Array, name: str) -> Array:
    """The result of an op, rounded to its element type and in the dtype that holds it."""
    if name == "bf16":
        return to_bf16(x)
    return np.asarray(x).astype(register_dtype(name), copy=False)


def unsigned(x: Array) -> Array:
    """The same bits, read as unsigned."""
    return x if x.dtype == np.bool_ else x.view(f"u{x.dtype.itemsize}")


def signed(x: Array) -> Array:
    """The same bits, read as two's complement; a true i1 is -1."""
    if x.dtype == np.bool_:
        return -x.astype(np.int8)
    return x.view(f"i{x.dtype.itemsize}") if x.dtype.kind == "u" else x


def whole(x: Array, shape: Sequence[int]) -> Array:
    """`x` with every dim of its block at full size, without copying; the axis of programs stays as it is."""
    return np.broadcast_to(x, (x.shape[0], *shape))
