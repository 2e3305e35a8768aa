"""Waits for a device, times calls on it, and reads its memory use.

Works on the CPU too, with one clock for everything and no memory figures, so that tests need no GPU.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

HOST_CALLS = 3
"""Calls for the host's time. CUDA's queue holds about a thousand launches; a model has up to some hundreds a call."""


@dataclass(frozen=True)
class Sample:
    """Seconds per call."""

    device: float
    """Between two device events around several calls in a row, without synchronisation between the calls."""
    wall: float
    """The same calls by the host's clock, until the device is idle."""
    host: float
    """A few calls by the host's clock, until the last returns: too few to fill the launch queue and block the host."""


def sample(device: torch.device, call: Callable[[], Any], count: int) -> Sample:
    """Times `count` calls in a row, with an idle device before and after. Before them, times a few for `host`."""
    few = min(count, HOST_CALLS)
    synchronize(device)
    # The first call after waiting is slower because of the processor.
    call()
    started = time.perf_counter()
    for _ in range(few):
        call()
    host = (time.perf_counter() - started) / few
    synchronize(device)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device.type == "cuda" else []
    started = time.perf_counter()
    for event in events[:1]:
        event.record()
    for _ in range(count):
        call()
    for event in events[1:]:
        event.record()
    synchronize(device)
    wall = (time.perf_counter() - started) / count
    return Sample(events[0].elapsed_time(events[1]) / 1e3 / count if events else wall, wall, host)


def synchronize(device: torch.device) -> None:
    """Waits until the device is idle."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def allocated(device: torch.device) -> int:
    """Bytes that tensors occupy now, after garbage collection; 0 on the CPU, where they are not counted."""
    if device.type != "cuda":
        return 0
    gc.collect()
    return torch.cuda.memory_allocated(device)


def kept_for_graphs(device: torch.device) -> int:
    """Bytes in the memory pools of CUDA graphs that no tensor occupies now: replays use them without allocating."""
    if device.type != "cuda":
        return 0
    pools = [segment for segment in torch.cuda.memory_snapshot() if tuple(segment["segment_pool_id"]) != (0, 0)]
    return sum(segment["total_size"] - segment["allocated_size"] for segment in pools)


def peak_of(device: torch.device, call: Callable[[], Any]) -> int | None:
    """The most bytes that tensors occupied during a call; None on the CPU."""
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    torch.cuda.synchronize(device)
    # Freed only now: the result is part of the call's memory.
    del result
    return torch.cuda.max_memory_allocated(device)


def release(device: torch.device) -> None:
    """Collects garbage and empties the caching allocator. On the CPU, where no memory is measured, does nothing: to
    collect takes up to a second."""
    if device.type == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
