"""Element types: torch's dtypes, MLIR's, and what each level calls them.

The cuesta dialect keeps torch's meaning in the type: i1 is bool, i8 int8, ui8 uint8. From linalg
down only storage counts: bool and uint8 are i8, and the ops carry the signedness.
"""

from __future__ import annotations

import torch

from cuesta._mlir import ir

#: dtype → the spelling of its MLIR element type in the cuesta dialect.
SPELLING: dict[torch.dtype, str] = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
}

_DTYPE = {spelling: dtype for dtype, spelling in SPELLING.items()}

#: What kernels compute on. The rest reaches ATen as it is.
COMPUTABLE = frozenset({"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1"})

#: Types whose arithmetic is done in f32, as ATen's opmath type says.
_OPMATH = {"bf16": "f32", "f16": "f32"}


def torch_dtype(element: ir.Type | str) -> torch.dtype:
    """The torch dtype of an element type of the cuesta dialect."""
    return _DTYPE[str(element)]


def opmath(spelling: str) -> str:
    """The type that arithmetic on `spelling` is carried out in."""
    return _OPMATH.get(spelling, spelling)


def storage(spelling: str) -> str:
    """The signless, byte-addressable type that holds `spelling` in memory."""
    return {"i1": "i8", "ui8": "i8"}.get(spelling, spelling)


def element(spelling: str) -> ir.Type:
    """The MLIR element type of that spelling in the current context."""
    return ir.Type.parse(spelling)


def tensor(shape: tuple[int, ...] | list[int], spelling: str) -> ir.RankedTensorType:
    """`tensor<AxBxspelling>` in the current context."""
    return ir.RankedTensorType.get(list(shape), element(spelling))


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The static shape of a tensor value."""
    return tuple(ir.RankedTensorType(value.type).shape)


def spelling_of(value: ir.Value) -> str:
    """How the element type of a tensor value is spelled."""
    return str(ir.RankedTensorType(value.type).element_type)


def byte_size(spelling: str) -> int:
    """Bytes that one element takes in memory."""
    return torch_dtype(spelling).itemsize


def is_float(spelling: str) -> bool:
    return torch_dtype(spelling).is_floating_point
