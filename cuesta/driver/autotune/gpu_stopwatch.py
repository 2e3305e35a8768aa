"""Times programs on a GPU against one another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch

#: Bytes to flush the cache with: more than any GPU's cache holds.
_CACHE = 256 << 20


@dataclass(frozen=True)
class GpuStopwatch:
    """Times the GPU work that calls launch on the current stream, in seconds.

    The cache holds none of a call's tensors when the call begins, as in a model, where other layers ran in between.
    """

    clock: Callable[[], float] = time.perf_counter
    rounds: int = 12
    warm: int = 2

    def race(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """The median time of each call, by name. The calls take turns."""
        flush = torch.empty(_CACHE, dtype=torch.int8, device="cuda")
        for call in calls.values():
            for _ in range(self.warm):
                call()
        marks: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
        for _ in range(self.rounds):
            for name, call in calls.items():
                marks[name].append(self._mark(call, flush))
        torch.cuda.synchronize()
        return {name: median(a.elapsed_time(b) for a, b in pairs) / 1e3 for name, pairs in marks.items()}

    def _mark(self, call: Callable[[], object], flush: torch.Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Records events around the work that a call launches. Flushing takes longer than the host's part of a call, so
        the GPU never waits for the host between the events."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        end.record()
        return start, end
