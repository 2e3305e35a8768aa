"""Times many small functions so that other work on the machine matters little, and lists cuesta's slowest first.

Each contender runs for a burst in every round, and its fastest single call counts: among many short calls some run
undisturbed, while a median includes the disturbances.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.measuring.on_cpu import Progress, first_calls
from cuesta.tools.bench.measuring.timing import no_collection
from cuesta.tools.bench.reporting.table import NOTHING, Table, seconds

ROUNDS = 40
BURST_SECONDS = 0.01
#: Least calls of a burst: the first call runs with the caches that another contender has left.
_FEWEST_CALLS = 3

_OURS = "cuesta"

ABOUT_SURVEY = """\
Times are the least of a call in many short bursts, in which the contenders take turns; the slowest of ours comes first;
error is cuesta's largest difference from eager, relative to the largest value."""


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
    torch._dynamo.reset()
    return found


def bursts(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Name → least seconds of a call, by round. All `calls` must be warm."""
    names = list(calls)
    times: dict[str, list[float]] = {name: [] for name in names}
    with no_collection():
        for index in range(rounds):
            turn = index % max(len(names), 1)
            for name in names[turn:] + names[:turn]:
                times[name].append(_burst(calls[name]))
    return times


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


def survey_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each case, by cuesta's time over Inductor's, or eager's if only eager was measured, largest first.
    Cases in which a contender failed come before all others."""
    names = list(dict.fromkeys(name for result in results.values() for name in result["times"] | result["failed"]))
    others = [name for name in names if name != _OURS]
    others.sort(key=lambda name: (name == "eager", name != "inductor"))
    least = {case: {n: min(t) for n, t in result["times"].items()} for case, result in results.items()}
    found = {case: [_ratio(times, other) for other in others] for case, times in least.items()}
    order = sorted(found, key=lambda case: found[case][0] if found[case] else 0, reverse=True)
    rows = []
    for case in order:
        times, errors = least[case], results[case]["errors"]
        cells = [seconds(times[n]) if n in times else "failed" for n in names]
        cells += ["" if ratio == math.inf else f"{ratio:.2f}" for ratio in found[case]]
        rows.append([case, *cells, f"{errors[_OURS]:.1e}" if _OURS in errors else NOTHING])
    means = [_mean([found[case][i] for case in order]) for i in range(len(others))]
    rows.append([f"geometric mean, {len(order)} cases", *([""] * len(names)), *means, ""])
    return Table(["case", *names, *(f"{_OURS}/{other}" for other in others), "error"], rows)


def _ratio(times: Mapping[str, float], other: str) -> float:
    """The ratio of cuesta's time to another's; infinite if either failed, so that the row comes first."""
    return times[_OURS] / times[other] if _OURS in times and other in times else math.inf


def _mean(ratios: Sequence[float]) -> str:
    """The geometric mean of the finite ratios, with their number if some ratios are infinite."""
    values = [ratio for ratio in ratios if ratio < math.inf]
    if not values:
        return NOTHING
    text = f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}"
    return text if len(values) == len(ratios) else f"{text} ({len(values)})"
