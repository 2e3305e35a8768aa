"""Records work on a CUDA device with torch's CUDA graphs, and puts torch right again where that fails."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

Tensor = torch.Tensor


class CudaRecorder:
    """Records on a CUDA device; one for each device."""

    def __init__(self, device: torch.device) -> None:
        self.lock = threading.RLock()
        self.returned: set[int] = set()
        self._device = device
        self._pool: Any = None
        self._graphs: weakref.WeakSet[Any] = weakref.WeakSet()  # of that pool
        self._stream: torch.cuda.Stream | None = None
        self._last: torch.cuda.Stream | None = None
        self._last_raw = 0

    def record(self, run: Callable[[], list[Tensor]]) -> tuple[Callable[[], None], list[Tensor]]:
        """What replays the work that `run` queues, and its results; nothing has run then.

        Raises what `run` raises, or torch where the work cannot be recorded; both leave no trace.
        """
        with torch.cuda.device(self._device):
            if self._stream is None:
                self._stream = torch.cuda.Stream(self._device)
            others = list(self._graphs)  # held until the end: torch must not see the pool without a graph meanwhile
            if self._pool is None or not others:
                # Torch closes a pool with the last of its graphs, and then refuses to record into it.
                self._pool = torch.cuda.graph_pool_handle()
            torch.cuda.synchronize()
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream), _no_garbage_collection():
                graph = torch.cuda.CUDAGraph()
                try:
                    results = self._capture(graph, run)
                except BaseException:
                    self._recover()
                    raise
            torch.cuda.current_stream().wait_stream(self._stream)
            self._graphs.add(graph)
        return graph.replay, results

    def _capture(self, graph: Any, run: Callable[[], list[Tensor]]) -> list[Tensor]:
        # Other threads may go on allocating meanwhile.
        graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
        try:
            results = run()
        except BaseException:
            with contextlib.suppress(RuntimeError):  # what `run` raised says more
                graph.capture_end()
            raise
        graph.capture_end()
        return results

    def _recover(self) -> None:
        """After a recording that failed torch still sends memory to its pool, by a filter that belongs to the graph,
        and takes the default generator for one that is being recorded: every later random number would fail."""
        pool, self._pool = self._pool, None  # torch cannot use it again
        self._graphs = weakref.WeakSet()
        index = self._device.index
        with contextlib.suppress(RuntimeError):  # raised where the recording had not begun, or has ended
            torch._C._cuda_endAllocateToPool(index, pool)
            torch._C._cuda_releasePool(index, pool)
        # A recording that succeeds gives the generator back.
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            torch.zeros(1, device=self._device)
        finally:
            graph.capture_end()

    def is_busy(self) -> bool:
        """Whether the current stream is being recorded by somebody else."""
        return bool(torch.cuda.is_current_stream_capturing())

    def follow(self) -> None:
        """Makes the current stream wait for what earlier replays, on other streams, have queued."""
        raw: int = torch._C._cuda_getCurrentRawStream(self._device.index)
        if self._last is None or raw != self._last_raw:
            current = torch.cuda.current_stream(self._device)
            if self._last is not None:
                current.wait_stream(self._last)
            self._last, self._last_raw = current, raw


@functools.cache
def recorder_of(device: torch.device) -> CudaRecorder:
    """The one that all programs of a device share."""
    return CudaRecorder(device)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """What is collected may be a graph, or memory with events, whose end a recording does not survive."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
