"""Makes the table of the survey, cuesta's slowest case first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from cuesta.tools.bench.reporting.table import NOTHING, Table, seconds

_OURS = "cuesta"

ABOUT_SURVEY = """\
Times are a call's least in many short bursts, in which the contenders take turns. The rows begin with cuesta's slowest
case. error: cuesta's largest difference from eager, relative to the largest value."""


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
