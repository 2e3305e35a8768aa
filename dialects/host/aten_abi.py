"""Encodes calls into ATen for torch's C shim: dtypes as numbers, arguments as 64-bit words.

`aoti_torch_call_dispatcher(name, overload, words)` calls any overload. The overload's schema determines the encoding,
as in torch/csrc/stable/stableivalue_conversions.h: numbers and handles are stored directly, None as 0, any other value
of an optional behind a pointer, lists and strings as handles. The call consumes lists, strings, pointers and tensor
handles, and returns its results in the words.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from typing import Any

import torch

from cuesta.dialects.aten import OperandRef, decode_call, find_overload
from cuesta.dialects.host.packed_convolutions import (
    ADDING,
    ADDING_IN_PLACE,
    PACKED_CONVOLUTIONS,
    HeldRef,
    onednn_arguments,
)
from cuesta.dialects.host.typed_entries import dispatcher_mistakes_results, has_typed_entry
from cuesta.dialects.types import torch_dtype
from cuesta.sizes import Size
from cuesta.targets import DEVICE_CODES
from cuesta.torch_library import torch_library
from cuesta.torch_private.ops import is_composite, schema_of

#: c10::ScalarType's numbers, which torch keeps stable; a test compares them with aoti_torch_dtype_*().
DTYPE_CODES: dict[torch.dtype, int] = {
    torch.uint8: 0,
    torch.int8: 1,
    torch.int16: 2,
    torch.int32: 3,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
    torch.complex64: 9,
    torch.complex128: 10,
    torch.bool: 11,
    torch.bfloat16: 15,
    torch.float8_e5m2: 23,
    torch.float8_e4m3fn: 24,
    torch.uint16: 27,
    torch.uint32: 28,
    torch.uint64: 29,
}

_MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}

#: Overload → (NAME, scalars) of its typed entry aoti_torch_DEVICE_NAME, which writes into our memory. The entry takes
#: the output, then the tensors, then these scalars.
OUT_ENTRIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "aten.mm.default": ("mm_out", ()),
    "aten.bmm.default": ("bmm_out", ()),
    "aten.addmm.default": ("addmm_out", ("beta", "alpha")),
    "aten.baddbmm.default": ("baddbmm_out", ("beta", "alpha")),
}

#: Overload → one that writes the same result over one of its operands, and that operand's position. The pass
#: add-in-place replaces the first by the second.
IN_PLACE: dict[str, tuple[str, int]] = {
    ADDING: (ADDING_IN_PLACE, 1),
    "aten.index_put.default": ("aten.index_put_.default", 0),
    "aten._unsafe_index_put.default": ("aten.index_put_.default", 0),
    "aten.scatter_add.default": ("aten.scatter_add_.default", 0),
}
_WRITE_OPERANDS = frozenset(overload for overload, _ in IN_PLACE.values())

#: A product with a weight that MKL has packed (cuesta/driver/freezing/packed_products.py). MKL works on our memory.
PACKED_PRODUCT = "cuesta.packed_mm.default"

#: Overload whose weight is packed → the library that packed it.
PACKED = {PACKED_PRODUCT: "MKL", **dict.fromkeys(PACKED_CONVOLUTIONS, "oneDNN")}


def dtype_code(spelling: str) -> int:
    """The shim's number of a dtype."""
    return DTYPE_CODES[torch_dtype(spelling)]


@dataclass(frozen=True)
class Number:
    """A constant word, or a symbolic size."""

    bits: int | Size


@dataclass(frozen=True)
class TensorWord:
    """A fresh handle to operand `index`."""

    index: int


@dataclass(frozen=True)
class HeldWord:
    """A fresh handle to the tensor whose handle is element `position` of operand `index`."""

    index: int
    position: int


@dataclass(frozen=True)
class Undefined:
    """An undefined tensor where the schema has no optional. Python passes None for it."""


@dataclass(frozen=True)
class Text:
    """A string."""

    value: str


@dataclass(frozen=True)
class Items:
    """A list."""

    words: tuple[Word, ...]


@dataclass(frozen=True)
class Present:
    """The value of an optional that is not None."""

    word: Word


Word = Number | TensorWord | HeldWord | Undefined | Text | Items | Present


#: Overloads whose results are views of their operands although their schemas do not say so.
_UNSAFE_VIEWS = frozenset({"aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes"})


class _NoWord(Exception):
    """The argument cannot go through the dispatcher's words."""


@functools.cache
def dispatcher_words(overload: str, args: str) -> tuple[Word, ...] | None:
    """The arguments of a call as words, or None where the call needs Python.

    The call needs Python if an argument is a Scalar or generator, if results are neither tensors nor ints or the
    dispatcher mistakes their types, if the overload may return or write to its arguments, other than those that
    `IN_PLACE` lists, or if it is not ATen's own.
    """
    packed = PACKED_CONVOLUTIONS.get(overload)
    op = find_overload(packed or overload)
    known = packed or overload in _WRITE_OPERANDS
    if not (known or (overload.startswith("aten.") and _returns_fresh_tensors(op))):
        return None
    if dispatcher_mistakes_results(overload) and not has_typed_entry(overload):
        return None
    count = args.count('"%')
    values, keywords = decode_call(args, [OperandRef(i) for i in range(count)])
    if packed:
        values = onednn_arguments(overload, values)
    words: list[Word] = []
    try:
        for position, argument in enumerate(schema_of(op).arguments):
            if position < len(values):
                value = values[position]
            elif argument.name in keywords:
                value = keywords[argument.name]
            elif argument.has_default_value():
                value = argument.default_value
            else:
                return None
            words.append(_word(argument.type, value))
    except _NoWord:
        return None
    return tuple(words)


def _returns_fresh_tensors(op: Any) -> bool:
    schema = schema_of(op)
    if schema.name in _UNSAFE_VIEWS or any(a.alias_info is not None for a in (*schema.arguments, *schema.returns)):
        return False
    # A composite may return its argument, whatever its schema says.
    composite = is_composite(op)
    return not composite and all(r.type.kind() in ("TensorType", "IntType", "SymIntType") for r in schema.returns)


def _word(kind: Any, value: Any) -> Word:
    match kind.kind():
        case "OptionalType":
            return Number(0) if value is None else Present(_word(kind.getElementType(), value))
        case "TensorType" if isinstance(value, OperandRef):
            return TensorWord(value.index)
        case "TensorType" if isinstance(value, HeldRef):
            return HeldWord(value.index, value.position)
        case "TensorType" if value is None:
            return Undefined()
        case "DeviceObjType" if isinstance(value, torch.device) and value.type in DEVICE_CODES:
            index = -1 if value.index is None else value.index
            return Number(DEVICE_CODES[value.type] << 32 | index & 0xFFFF_FFFF)
        case "BoolType" if isinstance(value, bool):
            return Number(int(value))
        case "FloatType" if isinstance(value, (int, float)):
            return Number(_bits("<d", float(value)))
        case "IntType" if isinstance(value, Size):
            return Number(value)
        case "IntType" if type(value) is int:
            return Number(_bits("<q", value))
        case "IntType" if isinstance(value, torch.dtype):
            return Number(DTYPE_CODES[value])
        case "IntType" if isinstance(value, torch.memory_format):
            return Number(_MEMORY_FORMATS[value])
        case "IntType" if value is torch.strided:
            return Number(0)
        case "StringType" if isinstance(value, str):
            return Text(value)
        case "ListType" if isinstance(value, (list, tuple)):
            return Items(tuple(_word(kind.getElementType(), item) for item in value))
    raise _NoWord


def _bits(layout: str, value: float) -> int:
    return int.from_bytes(struct.pack(layout, value), "little")


@functools.cache
def torch_exports(name: str) -> bool:
    """Whether the running torch has a function of that name in its C shim."""
    return hasattr(torch_library(), name)
