"""Which of several programs of a GPU is the fastest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch

#: Bytes, more than any GPU's cache has.
_CACHE = 256 << 20


@dataclass(frozen=True)
class GpuStopwatch:
    """Times what calls launch on the current stream, in seconds. A call finds nothing of its tensors in the cache, as
    in a model, whose other layers have been there since."""

    clock: Callable[[], float] = time.perf_counter
    rounds: int = 12
    warm: int = 2

    def race(self, calls: Mapping[str, Callable[[], object]]) -> dict[str, float]:
        """The median time of each call, by name. They take turns."""
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
        """Events around what a call launches. Flushing takes longer than the host's part of a call, so that the GPU
        never waits for that in between."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        end.record()
        return start, end
