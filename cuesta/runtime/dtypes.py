"""Maps the names of dtypes in an artefact's metadata and in the cuesta dialect to torch's dtypes, without MLIR."""

from __future__ import annotations

import torch

#: The spelling of an MLIR element type → dtype.
DTYPES: dict[str, torch.dtype] = {
    # Torch has no dtypes for these three pairs of numbers. Each maps to a dtype of the same width. They come first so
    # that later entries replace them in SPELLING.
    "i128": torch.complex128,
    "complex<bf16>": torch.int32,
    "complex<f16>": torch.int32,
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
    "complex<f32>": torch.complex64,
    "complex<f64>": torch.complex128,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
    "ui16": torch.uint16,
    "ui32": torch.uint32,
    "ui64": torch.uint64,
}

SPELLING: dict[torch.dtype, str] = {dtype: spelling for spelling, dtype in DTYPES.items()}

#: The dtypes that kernels compute on. Tensors of other dtypes are passed to ATen as they are.
COMPUTABLE = frozenset(
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1", "complex<f32>", "complex<f64>"}
)

#: The floats of 8 bits. Kernels convert from and to them, but do not compute on them.
FLOAT8 = frozenset({"f8E4M3FN", "f8E5M2"})
