"""Times many small functions so that other work on the machine matters little.

Each contender runs for a burst in every round, and its fastest single call counts: among many short calls some run
undisturbed, while a median includes the disturbances.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.measuring.on_cpu import Progress, first_calls
from cuesta.tools.bench.measuring.timing import in_turns

ROUNDS = 40
BURST_SECONDS = 0.01
#: Least calls of a burst: the first call runs with the caches that another contender has left.
_FEWEST_CALLS = 3


def survey_case(case: Case, contenders: Sequence[str], rounds: int | None, progress: Progress) -> dict[str, Any]:
    """{"times": {contender: least seconds of a call, by round}, "errors": {contender: difference from eager},
    "failed": {contender: reason}}."""
    progress(f"{case.name}: build")
    workload = case.make().workload()
    found: dict[str, Any] = {"errors": {}, "failed": {}}
    with torch.set_grad_enabled(bool(workload.parameters)):
        calls = first_calls(case.name, workload, contenders, found, progress)
        progress(f"{case.name}: time")
        found["times"] = bursts(calls, rounds or ROUNDS)
    torch.compiler.reset()
    return found


def bursts(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Name → least seconds of a call, by round. All `calls` must be warm."""
    return in_turns({name: partial(_burst, call) for name, call in calls.items()}, rounds)


def _burst(call: Callable[[], Any]) -> float:
    least, count = math.inf, 0
    started = end = time.perf_counter()
    while count < _FEWEST_CALLS or end < started + BURST_SECONDS:
        begin = time.perf_counter()
        call()
        end = time.perf_counter()
        least = min(least, end - begin)
        count += 1
    return least
