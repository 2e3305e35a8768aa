"""What a call on a GPU has around it: the right device, and arguments at addresses that kernels rely on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cuesta.runtime.dtypes import DTYPES

Tensor = torch.Tensor
Call = Callable[[list[Tensor]], list[Tensor]]

#: What the entry returns where an argument does not begin at a multiple of ALIGNMENT bytes; nothing has run then.
MISALIGNED = -(1 << 31)
ALIGNMENT = 16

_data_ptr: Callable[[Tensor], int] = torch._C.TensorBase.data_ptr
_view: Callable[..., Tensor] = torch._C._dynamo.guards._reinterpret_tensor  # type: ignore[attr-defined]


def device_names(device: torch.device) -> dict[str, Any]:
    """What a generated call uses of its device: `allocate` (sizes, strides, dtype) and `stream`, the current one."""
    guards, c = torch._C._dynamo.guards, torch._C
    match device.type:
        case "cuda":
            return {"allocate": guards._empty_strided_cuda, "stream": c._cuda_getCurrentRawStream}  # type: ignore[attr-defined]
        case "xpu":
            return {"allocate": guards._empty_strided_xpu, "stream": c._xpu_getCurrentRawStream}  # type: ignore[attr-defined]
    return {"allocate": guards._empty_strided_cpu, "stream": lambda index: 0}  # type: ignore[attr-defined]


def around(call: Callable[[list[Tensor]], list[Tensor] | None], metadata: dict[str, Any]) -> Call:
    """`call`, which gives None for arguments that are not aligned, made good for those and for any current device."""
    device = torch.device(metadata["device"])
    aligned = _Aligned(call, metadata)
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return aligned
    current: Callable[[], int] = torch._C._cuda_getDevice
    index = device.index

    def on_device(tensors: list[Tensor]) -> list[Tensor]:
        if current() == index:
            return aligned(tensors)
        with torch.cuda.device(index):
            return aligned(tensors)

    return on_device


class _Aligned:
    """A program's call, on copies of the arguments that are not aligned; what it writes into them is copied back."""

    def __init__(self, call: Callable[[list[Tensor]], list[Tensor] | None], metadata: dict[str, Any]) -> None:
        self._call = call
        self._results = metadata["results"]
        self._mutates = frozenset(metadata["mutates"])
        self._seen: list[int] = []  # arguments that were not aligned in the last call of that kind

    def __call__(self, tensors: list[Tensor]) -> list[Tensor]:
        if self._seen and any(_data_ptr(tensors[i]) % ALIGNMENT for i in self._seen):
            return self._with_copies(tensors)
        results = self._call(tensors)
        return self._with_copies(tensors) if results is None else results

    def _with_copies(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        moved = [i for i, address in enumerate(map(_data_ptr, tensors)) if address % ALIGNMENT]
        self._seen = moved
        copies = list(tensors)
        for i in moved:
            copies[i] = aligned_copy(tensors[i])
        written = {i: copies[i] for i in moved if i in self._mutates}
        results = self._call(copies)
        if results is None:
            raise AssertionError("torch gave memory that is not aligned")
        for i, copy in written.items():
            tensors[i].copy_(copy)
        for i, result in enumerate(self._results):
            if result["kind"] == "argument" and result["index"] in moved:
                results[i] = argument_result(tensors[result["index"]], result)
        return results


def aligned_copy(tensor: Tensor) -> Tensor:
    """A copy with the same sizes and strides, overlapping ones too, in memory of its own."""
    if not tensor.numel() or tensor.is_contiguous():
        return tensor.detach().clone()
    return _view(flat_view(tensor).clone(), tuple(tensor.shape), tensor.stride(), 0)


def flat_view(tensor: Tensor) -> Tensor:
    """All memory from a tensor's first element to its last, as one dim."""
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return _view(tensor.detach(), (extent,), (1,), 0)


def argument_result(argument: Tensor, result: dict[str, Any]) -> Tensor:
    """A result that lies in an argument, as the metadata describe it."""
    if result["whole"]:
        return argument
    dtype = DTYPES[result["dtype"]]
    source = argument
    if argument.dtype != dtype:
        source = _view(argument, (_whole_elements(flat_view(argument).numel(), argument.dtype, dtype),), (1,), 0)
        source = source.view(dtype)
    return _view(source, tuple(result["sizes"]), tuple(result["strides"]), result["offset"])


def elements_in_reach(memory: dict[str, Any], result: dict[str, Any]) -> int:
    """How many elements of a tensor, as the metadata describe it, lie one behind the other from its first to its last,
    or to where the last whole one ends of another dtype, that of a result which lies in it."""
    extent = 1 + sum((n - 1) * s for n, s in zip(memory["sizes"], memory["strides"], strict=True))
    return _whole_elements(extent, DTYPES[memory["dtype"]], DTYPES[result["dtype"]])


def _whole_elements(count: int, dtype: torch.dtype, to: torch.dtype) -> int:
    return count - count % max(to.itemsize // dtype.itemsize, 1)
