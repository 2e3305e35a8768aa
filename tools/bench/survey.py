"""The survey: many small functions, timed so that other work on the machine matters little, the slowest of ours first.

Each contender runs for a burst in every round, and the least time of a single call counts: of many short calls some run
undisturbed, where a median has whatever else the machine did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cuesta.tools.bench.measure import Progress, first_calls
from cuesta.tools.bench.table import NOTHING, Table, seconds
from cuesta.tools.bench.timing import no_collection
from cuesta.tools.bench.workload import BenchCase

ROUNDS = 40
BURST_SECONDS = 0.01
#: Calls of a burst, at least: the first one finds the caches as another contender has left them.
_FEWEST_CALLS = 3

_OURS = "cuesta"

ABOUT_SURVEY = """\
Times are the least of a call in many short bursts, in which the contenders take turns; the slowest of ours comes first;
error is cuesta's largest difference from eager, relative to the largest value."""


def survey_case(case: BenchCase, contenders: Sequence[str], rounds: int | None, progress: Progress) -> dict[str, Any]:
    """{"times": {contender: the least seconds of a call, of each round}, "errors": {contender: difference from eager},
    "failed": {contender: why}}."""
    progress(f"{case.name}: build")
    workload = case.make()
    found: dict[str, Any] = {"errors": {}, "failed": {}}
    with torch.set_grad_enabled(bool(workload.parameters)):
        calls = first_calls(case.name, workload, contenders, found, progress)
        progress(f"{case.name}: time")
        found["times"] = bursts(calls, rounds or ROUNDS)
    torch._dynamo.reset()
    return found


def bursts(calls: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """The least seconds of a call of each of `calls`, all of them warm, in each round."""
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
    """A row for each case, the one in which cuesta does worst first: beside Inductor, or eager where that is alone.
    Those in which it failed are before all."""
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
    """Of our time to another's; infinite where one failed, so that its row comes first."""
    return times[_OURS] / times[other] if _OURS in times and other in times else math.inf


def _mean(ratios: Sequence[float]) -> str:
    """Of those that are numbers; of how many, where some are none."""
    values = [ratio for ratio in ratios if ratio < math.inf]
    if not values:
        return NOTHING
    text = f"{math.exp(sum(map(math.log, values)) / len(values)):.2f}"
    return text if len(values) == len(ratios) else f"{text} ({len(values)})"
