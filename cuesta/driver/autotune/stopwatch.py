"""Times calls against one another, on a CPU and on a GPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from cuesta.driver.late.late_code import wait_all

#: Bytes to flush the cache with: more than any GPU's cache holds.
_CACHE = 256 << 20


#: A call is disturbed if its threads waited for a processor for more than this share of its time.
_WAITED = 0.05


def seconds_waited() -> float:
    """How long threads of this process that could run have waited for a processor so far: other programs had it. 0
    where the system does not count that."""
    nanoseconds = 0
    for thread in Path("/proc/self/task").glob("*/schedstat"):
        try:
            nanoseconds += int(thread.read_text().split()[1])
        except OSError:  # the thread has ended meanwhile
            continue
    return nanoseconds / 1e9


@dataclass(frozen=True)
class Stopwatch:
    """Times calls. All times are in seconds."""

    clock: Callable[[], float] = time.perf_counter
    waited: Callable[[], float] = seconds_waited
    #: about how long each call is timed for
    budget: float = 0.02
    #: least duration of a timed batch: much more than reading the clock takes
    batch: float = 0.0002
    rounds: int = 50
    #: calls of each before one is given up: on a busy machine one call may take ten times as long as the next
    fewest: int = 1
    #: how long calls are repeated on a busy machine until each was once left alone
    patience: float = 0.5
    #: a candidate that takes more than this many times the fastest one's time is not called again
    hopeless: float = 3.0

    def race(self, calls: Mapping[str, Callable[[], object]]) -> tuple[dict[str, float], bool]:
        """(the shortest time of each call, by name; whether other programs left each call alone once). If they did not,
        the times are not reliable.

        The calls take turns, so that a machine that is busy for a while slows all of them. The shortest time counts,
        because nothing makes a call faster than it is.
        """
        wait_all()  # LLVM's threads would be timed too
        best: dict[str, float] = {}
        disturbed = set(calls)
        for call in calls.values():
            call()  # warm-up: a first call touches memory, and a library makes its plan
        turns, end = 0, self.clock() + self.patience
        while turns < self.fewest or (disturbed and self.clock() < end):
            for name, call in calls.items():
                before = self.waited()
                taken = self._time(call, 1)
                best[name] = min(best.get(name, math.inf), taken)
                if self.waited() - before <= _WAITED * taken:
                    disturbed.discard(name)
            turns += 1
        limit = self.hopeless * min(best.values())
        left = [name for name in calls if best[name] <= limit]
        if len(left) == 1:
            return best, not disturbed
        counts = {name: max(1, round(self.batch / max(best[name], 1e-9))) for name in left}
        end = self.clock() + self.budget * len(left)
        for _ in range(self.rounds):
            for name in left:
                best[name] = min(best[name], self._time(calls[name], counts[name]))
            if self.clock() >= end:
                break
        return best, not disturbed

    def _time(self, call: Callable[[], object], count: int) -> float:
        start = self.clock()
        for _ in range(count):
            call()
        return (self.clock() - start) / count


@dataclass(frozen=True)
class GpuStopwatch:
    """Times the GPU work that calls launch on the current stream, in seconds.

    The cache holds none of a call's tensors when the call begins, as in a model, where other layers ran in between.
    """

    clock: Callable[[], float] = time.perf_counter
    rounds: int = 12
    warm: int = 2

    def race(self, calls: Mapping[str, Callable[[], object]]) -> tuple[dict[str, float], bool]:
        """(the median time of each call, by name; True, as other programs' work on the CPU does not delay the GPU's).

        The calls take turns.
        """
        flush = torch.empty(_CACHE, dtype=torch.int8, device="cuda")
        for call in calls.values():
            for _ in range(self.warm):
                call()
        marks: dict[str, list[tuple[torch.cuda.Event, torch.cuda.Event]]] = {name: [] for name in calls}
        for _ in range(self.rounds):
            for name, call in calls.items():
                marks[name].append(self._mark(call, flush))
        torch.cuda.synchronize()
        return {name: median(a.elapsed_time(b) for a, b in pairs) / 1e3 for name, pairs in marks.items()}, True

    def _mark(self, call: Callable[[], object], flush: torch.Tensor) -> tuple[torch.cuda.Event, torch.cuda.Event]:
        """Records events around the work that a call launches. Flushing takes longer than the host's part of a call, so
        the GPU never waits for the host between the events."""
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush.zero_()
        start.record()
        call()
        end.record()
        return start, end


def winner(times: Mapping[str, float], candidates: Sequence[str], worth: float) -> str:
    """The candidate to take: the fastest if it takes at most `worth` times as long as the first, else the first, which
    is the rule of thumb's."""
    usual = candidates[0]
    fastest = min((name for name in candidates if name in times), key=lambda name: times[name], default=usual)
    if usual not in times:
        return usual
    return fastest if times[fastest] <= worth * times[usual] else usual
