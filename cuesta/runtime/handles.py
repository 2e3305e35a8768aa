"""Converts tensor handles of torch's C shim (addresses of at::Tensor objects) to Python's tensors and back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from cuesta.torch_library import torch_library
from cuesta.torch_private.tensors import handles_of_tensors, tensors_of_handles

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def steal(*handles: int) -> list[torch.Tensor]:
    """Takes over handles and returns their tensors. The handles must not be used afterwards."""
    capsules = [_new_capsule(handle, None, None) for handle in handles]
    return tensors_of_handles(capsules)


def of_handle(handle: int) -> torch.Tensor:
    """Borrows a handle as a tensor; the caller keeps ownership."""
    made = ctypes.c_void_p()
    torch_library().aoti_torch_new_tensor_handle(ctypes.c_void_p(handle), ctypes.byref(made))
    assert made.value is not None
    (tensor,) = steal(made.value)
    return tensor


def make_handles(tensors: Sequence[torch.Tensor]) -> list[int]:
    """New handles of tensors. The receiver must delete them."""
    capsules = handles_of_tensors(list(tensors))
    return [_capsule_pointer(capsule, None) for capsule in capsules]
