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

    def aligned(tensors: list[Tensor]) -> list[Tensor]:
        results = call(tensors)
        return _with_copies(call, metadata, tensors) if results is None else results

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


def _with_copies(
    call: Callable[[list[Tensor]], list[Tensor] | None], metadata: dict[str, Any], tensors: Sequence[Tensor]
) -> list[Tensor]:
    """The call on copies of the arguments that are not aligned; what it writes into them is copied back."""
    moved = [i for i, t in enumerate(tensors) if t.data_ptr() % ALIGNMENT]
    copies = list(tensors)
    for i in moved:
        copies[i] = aligned_copy(tensors[i])
    written = {i: copies[i] for i in moved if i in metadata["mutates"]}
    results = call(copies)
    if results is None:
        raise AssertionError("torch gave memory that is not aligned")
    for i, copy in written.items():
        tensors[i].copy_(copy)
    for i, result in enumerate(metadata["results"]):
        if result["kind"] == "argument" and result["index"] in moved:
            results[i] = argument_result(tensors[result["index"]], result)
    return results


def aligned_copy(tensor: Tensor) -> Tensor:
    """A copy with the same sizes and strides, overlapping ones too, in memory of its own."""
    if not tensor.numel():
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
    source = argument if argument.dtype == dtype else argument.view(dtype)
    return _view(source, tuple(result["sizes"]), tuple(result["strides"]), result["offset"])
