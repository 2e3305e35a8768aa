"""Times backends interleaved: each runs in every round, so that a slow second of the machine slows all of them."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")

SAMPLE_SECONDS = 0.02
"""Length of one sample; shorter calls are repeated to fill it."""
CASE_SECONDS = 30.0
"""Time limit for all rounds of a case if the number of rounds is not given."""
ROUNDS = 25
FEWEST_ROUNDS = 7
BURST_ROUNDS = 40
BURST_SECONDS = 0.01
#: Least calls of a burst: the first call runs with the caches that another contender has left.
_FEWEST_CALLS = 3


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    lower: float
    upper: float

    @staticmethod
    def of(values: list[float]) -> Spread:
        if len(values) == 1:
            return Spread(values[0], values[0], values[0])
        lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, lower, upper)


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int | None = None) -> dict[str, list[float]]:
    """Name → seconds per call, one value a round. All `calls` must be warm.

    Without `rounds`, runs as many rounds as fit in CASE_SECONDS, between FEWEST_ROUNDS and ROUNDS.
    """
    names = list(calls)
    inner = {name: _inner_calls(calls[name]) for name in names}
    if rounds is None:
        one_round = sum(_sample(calls[name], inner[name]) * inner[name] for name in names)
        rounds = max(FEWEST_ROUNDS, min(ROUNDS, int(CASE_SECONDS / one_round)))
    return in_turns({name: partial(_sample, calls[name], inner[name]) for name in names}, rounds)


def bursts(calls: Mapping[str, Callable[[], Any]], rounds: int | None = None) -> dict[str, list[float]]:
    """Name → least seconds of a call, by round, in which each of the `calls` runs for a burst. All must be warm.

    For short calls, so that other work on the machine matters little: among many some run undisturbed, while a median
    includes the disturbances.
    """
    return in_turns({name: partial(_burst, call) for name, call in calls.items()}, rounds or BURST_ROUNDS)


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


def in_turns(samplers: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Name → one sample a round. The order rotates: each contender leaves its data in the caches for the next."""
    names = list(samplers)
    samples: dict[str, list[T]] = {name: [] for name in names}
    with no_collection():
        for index in range(rounds):
            turn = index % max(len(names), 1)
            for name in names[turn:] + names[:turn]:
                samples[name].append(samplers[name]())
    return samples


def ratios(times: list[float], base: list[float]) -> Spread:
    """The ratio of times to base times, round by round, so that a disturbance of a whole round cancels."""
    return Spread.of([a / b for a, b in zip(times, base, strict=True)])


def _inner_calls(call: Callable[[], Any]) -> int:
    """The number of calls that fill a sample."""
    count = 1
    while True:
        seconds = _sample(call, count) * count
        if seconds >= SAMPLE_SECONDS / 2:
            return max(1, round(count * SAMPLE_SECONDS / seconds))
        count *= 4


def _sample(call: Callable[[], Any], count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - started) / count


@contextmanager
def no_collection() -> Iterator[None]:
    """Keeps Python's garbage collector from running inside one backend's sample."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
