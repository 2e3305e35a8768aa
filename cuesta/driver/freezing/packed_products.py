"""Packs the right operand of f32 matrix products with MKL for `freezing`, and defines the product that takes it.

`cblas_sgemm_pack` writes an operand in the order in which MKL's kernel reads it, for products of a given number of
rows; `cblas_sgemm_compute` multiplies by it. Both are in the libtorch_cpu.so of builds with MKL.
https://www.intel.com/content/www/us/en/docs/onemkl/developer-reference-c/current/cblas-gemm-pack-001.html
"""

from __future__ import annotations

import ctypes
import functools

import torch
from torch import Tensor

from cuesta.torch_library import torch_library

_ROW_MAJOR, _AS_IT_IS, _TRANSPOSED, _PACKED, _RIGHT = 101, 111, 112, 151, 162
_INT, _FLOAT, _POINTER = ctypes.c_int, ctypes.c_float, ctypes.c_void_p


@functools.cache
def _mkl() -> ctypes.CDLL | None:
    """torch's own library; None if it lacks MKL's pack functions."""
    library = torch_library()
    if not all(hasattr(library, f"cblas_sgemm_{name}") for name in ("pack_get_size", "pack", "compute")):
        return None
    library.cblas_sgemm_pack_get_size.argtypes = [_INT] * 4
    library.cblas_sgemm_pack_get_size.restype = ctypes.c_size_t
    library.cblas_sgemm_pack.argtypes = [*[_INT] * 6, _FLOAT, _POINTER, _INT, _POINTER]
    library.cblas_sgemm_compute.argtypes = [*[_INT] * 6, _POINTER, _INT, _POINTER, _INT, _FLOAT, _POINTER, _INT]
    return library


def can_pack() -> bool:
    """Whether this torch can pack weights."""
    return _mkl() is not None


def packed_size(m: int, n: int, k: int) -> int:
    """The packed size, in elements of f32, of a right operand [k, n] for products of m rows."""
    library = _mkl()
    assert library is not None
    return -(-library.cblas_sgemm_pack_get_size(_RIGHT, m, n, k) // 4)


def pack(weight: Tensor, across: bool, m: int) -> Tensor:
    """Packs a contiguous weight of f32, [n, k] if `across`, else [k, n], for products of m rows."""
    library = _mkl()
    assert library is not None and weight.is_contiguous() and weight.dtype == torch.float32
    n, k = weight.shape if across else weight.shape[::-1]
    packed = torch.empty(packed_size(m, n, k))
    order = _TRANSPOSED if across else _AS_IT_IS
    stride = weight.stride(0)
    library.cblas_sgemm_pack(_ROW_MAJOR, _RIGHT, order, m, n, k, 1.0, weight.data_ptr(), stride, packed.data_ptr())
    return packed


@torch.library.custom_op("cuesta::packed_mm", mutates_args=())
def packed_mm(x: Tensor, packed: Tensor, columns: int) -> Tensor:
    """The product of x [m, k] of f32 by a packed matrix [k, columns]. Programs call MKL themselves (host_to_llvm)."""
    library = _mkl()
    assert library is not None
    x = x.contiguous()
    (m, k), result = x.shape, x.new_empty(x.shape[0], columns)
    orders = (_ROW_MAJOR, _AS_IT_IS, _PACKED)
    a, b, c = (t.data_ptr() for t in (x, packed, result))
    library.cblas_sgemm_compute(*orders, m, columns, k, a, k, b, columns, 0.0, c, columns)
    return result


@packed_mm.register_fake
def _fake(x: Tensor, packed: Tensor, columns: int) -> Tensor:
    return x.new_empty(x.shape[0], columns)
