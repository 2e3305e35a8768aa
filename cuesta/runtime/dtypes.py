"""The dtypes as an artefact's metadata and the cuesta dialect spell them, without MLIR."""

from __future__ import annotations

import torch

#: The spelling of an MLIR element type → dtype.
DTYPES: dict[str, torch.dtype] = {
    # No dtypes of torch's, but as wide: pairs of numbers in memory. First, so that SPELLING has what follows.
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

#: What kernels compute on. The rest reaches ATen as it is.
COMPUTABLE = frozenset(
    {"f32", "f64", "bf16", "f16", "i64", "i32", "i16", "i8", "ui8", "i1", "complex<f32>", "complex<f64>"}
)
