"""Records work on a CUDA device with torch's CUDA graphs, and repairs torch's state if a recording fails."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from cuesta.runtime.cuda.cuda_driver import copier
from cuesta.runtime.cuda.recording import Recording
from cuesta.runtime.cuda.results import Block, Pool, Range, Results
from cuesta.torch_private.devices import end_pool, free_workspaces, growing_segments, raw_cuda_stream
from cuesta.torch_private.tensors import without_memory

Tensor = torch.Tensor


class CudaRecorder:
    """Records on a CUDA device. Each device has one recorder."""

    def __init__(self, device: torch.device) -> None:
        self.lock = threading.RLock()
        self.returned: Counter[int] = Counter()
        self.blocks: dict[int, tuple[Block, Results]] = {}
        self.recordings: weakref.WeakSet[Recording] = weakref.WeakSet()
        self.held: set[Results] = set()
        self._device = device
        self._pools: list[Pool] = []
        self._stream: torch.cuda.Stream | None = None
        self._last: torch.cuda.Stream | None = None
        self._last_raw = 0
        self._as_current: Any = torch.cuda.device(device) if torch.cuda.device_count() > 1 else contextlib.nullcontext()

    def open_pool(self, with_lent: bool = True) -> Pool:
        """A pool in which a recording may be made. Its results may lie in lent memory, if the pool has any."""
        # Torch closes a pool when its last graph goes, and then refuses to record into the pool.
        self._pools = [pool for pool in self._pools if pool.graphs]
        for pool in self._pools:
            if pool.is_open() and (with_lent or not pool.lent):
                return pool
        return Pool(torch.cuda.graph_pool_handle())

    def record(
        self, run: Callable[[list[Tensor]], list[Tensor]], pool: Pool, given: Sequence[Tensor]
    ) -> tuple[Callable[[], None], list[Tensor], list[Tensor]]:
        """Records the work that `run` queues, without running it. `run` gets a list of tensors like those `given`, in
        memory of the pool, which it may empty. Returns a function that replays the work, the results of `run`, and
        tensors over the memory of that list's, which do not keep it: what no result keeps is the pool's.

        Raises what `run` raises, or what torch raises if the work cannot be recorded. Torch's state is restored then.
        """
        with torch.cuda.device(self._device):
            if self._stream is None:
                self._stream = torch.cuda.Stream(self._device)
            others = list(pool.graphs)  # held until the end, because the pool must never be without a graph meanwhile
            torch.cuda.synchronize()
            self._make_room()
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream), _no_garbage_collection(), growing_segments():
                graph = torch.cuda.CUDAGraph()
                try:
                    results, places = self._capture(graph, run, pool, given)
                except BaseException:
                    self._recover(pool)
                    raise
            torch.cuda.current_stream().wait_stream(self._stream)
            del others
            pool.graphs.add(graph)
            if pool not in self._pools:
                self._pools.append(pool)
        return graph.replay, results, places

    def _make_room(self) -> None:
        """Gives memory that torch's allocator holds for nobody back, if it is more than what is left on the device.

        The call before, which ran without a recording, left as much to the allocator as a recording may need, and
        during a recording the allocator gives nothing back.
        """
        held = torch.cuda.memory_reserved(self._device) - torch.cuda.memory_allocated(self._device)
        free, _ = torch.cuda.mem_get_info(self._device)
        if held > free:
            torch.cuda.empty_cache()

    def _capture(
        self, graph: Any, run: Callable[[list[Tensor]], list[Tensor]], pool: Pool, given: Sequence[Tensor]
    ) -> tuple[list[Tensor], list[Tensor]]:
        free_workspaces()  # the recording allocates its own in the pool; that of the call before is idle
        # With "thread_local", other threads may allocate during the capture.
        graph.capture_begin(pool=pool.handle, capture_error_mode="thread_local")
        try:
            copies = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device) for t in given]
            places = [without_memory(copy) for copy in copies]
            results = run(copies)
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the exception of `run` is more useful
                graph.capture_end()
            raise
        graph.capture_end()
        free_workspaces()  # replays run one after another, so the next recording's may be the same memory
        return results, places

    def copy(self, places: Sequence[tuple[int, int]], sources: Sequence[int]) -> None:
        """Queues copies on the stream of the last `follow`: to each place, an address and a number of bytes, from the
        address of its source. Raises DeviceError with the driver's message."""
        queue = copier(self._device.index)
        with self._as_current:
            for (place, nbytes), source in zip(places, sources, strict=True):
                queue(place, source, nbytes, self._last_raw)

    def _recover(self, pool: Pool) -> None:
        """Repairs torch's state after a failed recording. Torch still routes allocations to the pool, by a filter of
        the graph, and still treats the default generator as being recorded: every later random number would fail."""
        pool.is_closed = True
        index = self._device.index
        with contextlib.suppress(RuntimeError):  # raised if the recording had not begun, or has ended
            end_pool(index, pool.handle)
        # A successful recording resets the generator.
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            torch.zeros(1, device=self._device)
        finally:
            graph.capture_end()

    def memory(self, pool: Pool) -> list[Range]:
        """The memory of a pool, as it is now."""
        segments = [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool.handle)]
        return sorted((s["address"], s["address"] + s["total_size"]) for s in segments)

    def is_busy(self) -> bool:
        """Whether somebody else is recording the current stream."""
        return bool(torch.cuda.is_current_stream_capturing())

    def follow(self) -> None:
        """Makes the current stream wait for earlier replays on other streams."""
        raw = raw_cuda_stream(self._device.index)
        if self._last is None or raw != self._last_raw:
            current = torch.cuda.current_stream(self._device)
            if self._last is not None:
                current.wait_stream(self._last)
            self._last, self._last_raw = current, raw


@functools.cache
def recorder_of(device: torch.device) -> CudaRecorder:
    """The recorder of a device, which all its programs share."""
    return CudaRecorder(device)


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turns garbage collection off: freeing a graph, or memory with events, would make a recording fail."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
