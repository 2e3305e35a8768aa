"""What a measurement asks of the device: to wait, to time, to say how much memory is taken.

The CPU answers too, with one clock for everything and no memory figures, so that all but the GPU is tested without one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Sample:
    """Seconds per call, the mean of several calls in a row without waiting between them."""

    device: float
    """Between two events around the calls, on the device."""
    host: float
    """Until the last call had returned; close to `device` where the host waits for a full queue."""
    wall: float
    """Until the device was done, too."""


def sample(device: torch.device, call: Callable[[], Any], count: int) -> Sample:
    """Runs `call` `count` times, from an idle device to an idle device."""
    if device.type != "cuda":
        started = time.perf_counter()
        for _ in range(count):
            call()
        seconds = (time.perf_counter() - started) / count
        return Sample(seconds, seconds, seconds)
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize(device)
    started = time.perf_counter()
    first.record()
    for _ in range(count):
        call()
    last.record()
    returned = time.perf_counter()
    torch.cuda.synchronize(device)
    done = time.perf_counter()
    return Sample(first.elapsed_time(last) / 1e3 / count, (returned - started) / count, (done - started) / count)


def synchronize(device: torch.device) -> None:
    """Waits until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def allocated(device: torch.device) -> int:
    """Bytes that tensors take now, after garbage collection; 0 on the CPU, where nobody counts."""
    gc.collect()
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def peak_of(device: torch.device, call: Callable[[], Any]) -> int | None:
    """The most bytes that tensors took during a call; None on the CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    torch.cuda.synchronize(device)
    # Until here the result is part of what the call takes.
    del result
    return torch.cuda.max_memory_allocated(device)


def release(device: torch.device) -> None:
    """Gives back what the caching allocator keeps for later."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
