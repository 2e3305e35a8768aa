"""Names torch's functions for a tensor's memory and lazy bits, and for tensors over given memory. Loaded with torch.

The names without a signature in torch are C++ functions, which run in each call of a compiled program: they are bound
here once, and called without a function of ours between.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch._C._dynamo.guards import compute_overlapping_tensors

Tensor = torch.Tensor

#: (tensor, sizes, strides, offset to add) → a tensor over the same memory, which autograd does not see as a view.
#: Without it, results that are views of the arena or of arguments cannot be returned: no program can be called.
reinterpret_tensor: Callable[..., Tensor] = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]

#: Address of a storage → the number of tensors and storages that hold its memory. Without it, memory of arguments that
#: the backward graph alone needs is not reused, and CUDA graphs cannot tell whether results are still in use.
storage_uses: Callable[[int], int] = torch._C._storage_Use_Count

#: A count that grows with each write in place to the tensor. Without it, frozen weights that change go unnoticed, and
#: an audit does not restore a model's tensors.
version: Callable[[Tensor], int] = operator.attrgetter("_version")

#: The tensor that a tensor is a view of, or None. Without it, AOTAutograd refuses results of ATen's views as arguments
#: of graphs that write them.
base_of: Callable[[Tensor], Tensor | None] = operator.attrgetter("_base")

#: The address of the C++ object of a tensor or of a storage. Without it, arguments cannot be checked in native code,
#: and nothing works that needs storage_uses or storage_key.
address: Callable[[Tensor | torch.UntypedStorage], int] = operator.attrgetter("_cdata")

#: Whether all elements are zero and have no memory (torch._efficientzerotensor; some gradients are such). Without it,
#: the address of such an argument, null, is passed to a program.
is_zerotensor: Callable[[Tensor], bool] = Tensor._is_zerotensor

#: Changes the lazy conjugate bit, and the lazy negative bit, of a tensor over the same memory. Without them, arguments
#: with these bits (`.conj()`, `.conj().imag`) have to be copied, and mutations of them are lost.
conjugate_bit: Callable[[Tensor], Tensor] = Tensor._conj
negative_bit: Callable[[Tensor], Tensor] = torch._neg_view

#: The number of holders of a tensor's C++ object. Without it, saved memory is never reused (uniqueness_check.py).
uses: Callable[[Tensor], int] = Tensor._use_count  # type: ignore[attr-defined]

#: Capsules of AOTInductor's handles → their tensors, taken over. Without it, native code cannot return what ATen gave.
tensors_of_handles: Callable[[list[Any]], list[Tensor]] = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs

#: Tensors → capsules of new handles of AOTInductor's. Without it, native code cannot pass tensors to ATen.
handles_of_tensors: Callable[[list[Tensor]], list[Any]] = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors


def without_memory(tensor: Tensor) -> Tensor:
    """A tensor over the same memory that does not keep it. Without it, what a CUDA graph saves for another one's replay
    stays its own, and training takes more memory."""
    nbytes = tensor.untyped_storage().nbytes()
    pointer = tensor.untyped_storage().data_ptr()
    storage = torch._C._construct_storage_from_data_pointer(pointer, tensor.device, nbytes)
    place = tensor.storage_offset(), tensor.shape, tensor.stride()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, *place)


def storage_key(tensor: Tensor) -> int:
    """A number that the tensors over the same storage, and no others, have in common: the address of the storage's C++
    object. Without it, tied weights are saved twice, and results that alias arguments are not recognised."""
    return address(tensor.untyped_storage())


def memory_of(value: object) -> int | None:
    """The storage_key of a strided tensor; None for any other value."""
    return storage_key(value) if isinstance(value, Tensor) and value.layout == torch.strided else None


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share an element. Without it, interleaved views of one memory, such as a matrix's even
    and odd columns, count as overlapping."""
    return bool(compute_overlapping_tensors([a, b], symbolic=False))
