"""Provides a generated call with its device's allocator and stream, and makes its device the current one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from cuesta.torch_private.devices import allocator, current_device, raw_stream_of

Tensor = torch.Tensor
Call = Callable[..., list[Tensor]]  # takes the tensors, and whether the call overwrites what others hold


def device_names(device: torch.device) -> dict[str, Any]:
    """The names of a generated call that depend on its device: `allocate` (sizes, strides, dtype), and `stream`, which
    gives the current stream."""
    if device.type in ("cuda", "xpu"):
        return {"allocate": allocator(device.type), "stream": raw_stream_of(device.type)}
    return {"allocate": allocator("cpu"), "stream": lambda index: 0}


def on_device(call: Call, device: torch.device) -> Call:
    """`call`, made to run with `device` as the current device."""
    if device.type != "cuda" or torch.cuda.device_count() < 2:
        return call
    current = current_device()
    index = device.index

    def switched(tensors: list[Tensor], overwrites: bool = False) -> list[Tensor]:
        if current() == index:
            return call(tensors, overwrites)
        with torch.cuda.device(index):
            return call(tensors, overwrites)

    return switched
