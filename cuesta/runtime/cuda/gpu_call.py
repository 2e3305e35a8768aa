"""Provides a generated call with its device's allocator and stream, and makes its device the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
Call = Callable[[list[Tensor]], list[Tensor]]


def device_names(device: torch.device) -> dict[str, Any]:
    """The names of a generated call that depend on its device: `allocate` (sizes, strides, dtype), and `stream`, which
    gives the current stream."""
    guards, c = torch._C._dynamo.guards, torch._C
    match device.type:
        case "cuda":
            return {"allocate": guards._empty_strided_cuda, "stream": c._cuda_getCurrentRawStream}  # type: ignore[attr-defined]
        case "xpu":
            return {"allocate": guards._empty_strided_xpu, "stream": c._xpu_getCurrentRawStream}  # type: ignore[attr-defined]
    return {"allocate": guards._empty_strided_cpu, "stream": lambda index: 0}  # type: ignore[attr-defined]


def on_device(call: Call, device: torch.device) -> Call:
    """`call`, made to run with `device` as the current device."""
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return call
    current: Callable[[], int] = torch._C._cuda_getDevice
    index = device.index

    def switched(tensors: list[Tensor]) -> list[Tensor]:
        if current() == index:
            return call(tensors)
        with torch.cuda.device(index):
            return call(tensors)

    return switched
