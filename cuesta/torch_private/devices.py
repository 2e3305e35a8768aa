"""Torch's allocators, streams and memory pools, as each call of a program uses them. Loaded with torch.

Not every build of torch has all of them: names of CUDA and XPU are looked up when they are asked for.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

Allocate = Callable[..., torch.Tensor]

_GROWING = "expandable_segments"
#: What the allocator's settings contain where the user has chosen how memory grows.
_CHOICES = (_GROWING, "cudaMallocAsync")
#: The settings that `growing_segments` left → those that the user had chosen.
_USERS: dict[str | None, str] = {}


def allocator(kind: str) -> Allocate:
    """(sizes, strides, dtype) → an uninitialised tensor on the current device of a kind, "cpu", "cuda" or "xpu".
    Without it, torch.empty_strided does the same in several microseconds more for each result."""
    found: Allocate = getattr(torch._C._dynamo.guards, f"_empty_strided_{kind}")
    return found


def raw_stream_of(kind: str) -> Callable[[int], int]:
    """Index of a device → the handle of its current stream, for "cuda" or "xpu". Without it, a call has to make a
    stream object each time to learn on what stream its kernels run."""
    found: Callable[[int], int] = getattr(torch._C, f"_{kind}_getCurrentRawStream")
    return found


def raw_cuda_stream(index: int) -> int:
    """The handle of a CUDA device's current stream. Without it, a CUDA graph's replay has to make a stream object to
    learn that the stream is the same as before."""
    return torch._C._cuda_getCurrentRawStream(index)


def current_device() -> Callable[[], int]:
    """The function that gives the current CUDA device. torch.cuda.current_device also asks whether CUDA is
    initialised, which costs each call of a program on several GPUs."""
    found: Callable[[], int] = torch._C._cuda_getDevice
    return found


def end_pool(index: int, pool: Any) -> None:
    """Ends the recording into a pool of memory, and gives the pool back. Without it, the memory of a recording that
    failed is never freed, and later allocations go to its pool."""
    torch._C._cuda_endAllocateToPool(index, pool)
    torch._C._cuda_releasePool(index, pool)


def free_workspaces() -> None:
    """Frees cuBLAS's workspaces, 32 MiB a stream on Hopper, until it needs them again. Without it, each recording
    keeps one as long as its pool, beside that of the stream on which the program ran before."""
    torch._C._cuda_clearCublasWorkspaces()


@contextlib.contextmanager
def growing_segments() -> Iterator[None]:
    """Within this context the allocator extends its last segment, rather than making a segment for each large tensor:
    tensors that lie side by side leave one free range. Without it, a recording's memory is a fourth larger than its
    tensors. The context changes nothing if the user has switched such segments on or off or has chosen another
    allocator, and on platforms without such segments."""
    settings = _allocator_settings() if torch.version.cuda is not None else None
    settings = _USERS.get(settings, settings)
    if settings is None or any(name in settings for name in _CHOICES):
        yield
        return
    # Each call sets all settings anew.
    torch._C._accelerator_setAllocatorSettings(f"{settings},{_GROWING}:True".lstrip(","))
    try:
        yield
    finally:
        left = f"{settings},{_GROWING}:False".lstrip(",")
        torch._C._accelerator_setAllocatorSettings(left)
        _USERS[left] = settings


def _allocator_settings() -> str | None:
    """The settings of torch's allocator, as the user wrote them; None if this torch does not tell."""
    read = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    if read is not None:
        return str(read())
    # torch before 2.12 tells them beside the allocator's segments.
    told: str | None = torch.cuda.memory._snapshot().get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF")
    return told


def is_in_bad_fork() -> bool:
    """Whether CUDA was initialised before this process was forked, so that it cannot be used here. Without it, a
    benchmark's process fails with CUDA's error instead of starting another interpreter."""
    return torch.cuda._is_in_bad_fork()
