"""Makes the tables of a suite: a row for each case, geometric means by family and kind, and what falls short."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from cuesta.tools.bench.measuring.timing import Spread
from cuesta.tools.bench.reporting.columns import Cases, device_times, speedup
from cuesta.tools.bench.reporting.table import NOTHING, Table, megabytes, seconds

MODES = {"default": "", "reduce-overhead": ":reduce-overhead"}
MOST_COMPILE = 0.5
"""The part of Inductor's cold compile time above which cuesta's falls short."""
MOST_MEMORY = 1.1
"""The part of Inductor's memory above which cuesta's falls short."""

ABOUT_CASES = """\
right: cuesta's results in both modes, by the rule of the other tables; eager: a call's time; then how many times faster
than eager the others are, in default mode / reduce-overhead (medians over rounds); over inductor: cuesta's speed over
Inductor's in the same mode; memory: peak above weights and inputs, in default mode; cold: seconds from torch.compile to
the end of the first call, caches empty, with as many other processes compiling as the list of runs says."""
ABOUT_MEANS = """\
Geometric means, in default mode / reduce-overhead: times faster than eager, cuesta's speed over Inductor's (above 1 is
faster), cuesta's memory and cold compile time over Inductor's (below 1 is less). A number in brackets says of how many
cases, where some have no figure. right: in how many cases cuesta is right in both modes."""

_MEANT = ("cuesta × eager", "inductor × eager", "over inductor", "memory", "cold")


def ratios_of(case: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Figure → mode → ratio, of those that were measured: the columns of the means."""
    parts = case.get("contenders", {})
    found: dict[str, dict[str, float]] = {name: {} for name in _MEANT}
    for mode, suffix in MODES.items():
        ours, theirs = parts.get(f"cuesta{suffix}", {}), parts.get(f"inductor{suffix}", {})
        for name, faster in (
            ("cuesta × eager", speedup(ours, _eager_beside(ours, parts))),
            ("inductor × eager", speedup(theirs, _eager_beside(theirs, parts))),
            ("over inductor", speedup(ours, theirs)),
        ):
            if faster:
                found[name][mode] = faster.median
        if ours.get("memory") and theirs.get("memory"):
            found["memory"][mode] = ours["memory"] / theirs["memory"]
    ours, theirs = (case.get("cold", {}).get(name, {}).get("total") for name in ("cuesta", "inductor"))
    if ours and theirs:
        found["cold"]["default"] = ours / theirs
    return found


def _eager_beside(part: Mapping[str, Any], parts: Mapping[str, Any]) -> Mapping[str, Any]:
    """Eager's results of the run that a contender's are of."""
    found: Mapping[str, Any] = part.get("eager") or parts.get("eager", {})
    return found


def is_right(case: Mapping[str, Any]) -> bool:
    """Whether every contender of cuesta was judged right."""
    ours = _ours(case.get("contenders", {}))
    return bool(ours) and all((part.get("accuracy") or {}).get("right", False) for part in ours)


def cases_table(cases: Cases) -> Table:
    """A row for each case; one that failed as a whole says only so."""
    header = ["case", "right", "eager", "cuesta", "inductor", "over inductor", "memory (inductor)", "cold (inductor)"]
    return Table(header, [_row(name, case) for name, case in cases.items()])


def _row(name: str, case: Mapping[str, Any]) -> list[str]:
    parts, ratios = case.get("contenders", {}), ratios_of(case)
    if "failed" in case and not parts:
        return [name, "failed", *[NOTHING] * 6]
    eager = device_times(parts.get("eager", {}))
    memory = [parts.get(backend, {}).get("memory") for backend in ("cuesta", "inductor")]
    cold = [case.get("cold", {}).get(backend, {}).get("total") for backend in ("cuesta", "inductor")]
    return [
        name,
        "right" if is_right(case) else "failed" if any("failed" in p for p in _ours(parts)) else "WRONG",
        seconds(statistics.median(eager)) if eager else NOTHING,
        *(_modes({mode: f"{value:.2f}" for mode, value in ratios[figure].items()}) for figure in _MEANT[:3]),
        _beside([megabytes(value) if value else NOTHING for value in memory]),
        _beside([f"{value:.1f} s" if value else NOTHING for value in cold]),
    ]


def _ours(parts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for name, part in parts.items() if name.startswith("cuesta")]


def _modes(texts: Mapping[str, str]) -> str:
    return " / ".join(texts.get(mode, NOTHING) for mode in MODES)


def _beside(texts: list[str]) -> str:
    return f"{texts[0]} ({texts[1]})"


def groups_of(cases: Cases) -> dict[str, list[Mapping[str, Any]]]:
    """The cases of each family and kind, and of each kind: "timm, eval" and "all, eval"."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for name, case in cases.items():
        family, kind = name.partition("/")[0], name.rpartition("_")[2]
        groups.setdefault(f"{family}, {kind}", []).append(case)
    for kind in dict.fromkeys(name.rpartition("_")[2] for name in cases):
        groups[f"all, {kind}"] = [case for name, case in cases.items() if name.rpartition("_")[2] == kind]
    return groups


def means_table(cases: Cases) -> Table:
    """A row for each group of cases."""
    rows = []
    for label, group in groups_of(cases).items():
        measured = [ratios_of(case) for case in group]
        means = [
            _modes({m: _mean([r[f][m] for r in measured if m in r[f]], len(group)) for m in MODES}) for f in _MEANT
        ]
        rows.append([label, str(len(group)), str(sum(map(is_right, group))), *means])
    return Table(["family, kind", "cases", "right", *_MEANT], rows)


def _mean(values: list[float], of: int) -> str:
    if not values:
        return NOTHING
    text = f"{statistics.geometric_mean(values):.2f}"
    return text if len(values) == of else f"{text} ({len(values)})"


def shortfalls(cases: Cases) -> list[str]:
    """A line for each case that failed, is wrong, slower than Inductor, or takes more than MOST_MEMORY of its memory or
    MOST_COMPILE of its compile time."""
    return [f"{name}: {'; '.join(found)}" for name, case in cases.items() if (found := list(_short(case)))]


def _short(case: Mapping[str, Any]) -> Iterator[str]:
    if "failed" in case:
        yield f"failed: {case['failed']}"
    for name, part in case.get("contenders", {}).items():
        accuracy = part.get("accuracy")
        if "failed" in part:
            yield f"{name} failed: {part['failed']}"
        elif accuracy and not accuracy["right"]:
            error = f"outputs {accuracy['outputs']:.3g}, gradients {accuracy['gradients'] or 0:.3g}"
            yield f"{name} is wrong: {error} times eager's error"
        for graph in part.get("graphs", ()):
            if graph["fallback"]:
                yield f"{name} runs a {graph['name']} graph op by op: {graph['fallback']}"
    for name, part in case.get("cold", {}).items():
        if "failed" in part:
            yield f"{name} failed when compiled cold: {part['failed']}"
    ratios = ratios_of(case)
    for figure, word, least, most in (
        ("over inductor", "of Inductor's speed", 1.0, None),
        ("memory", "of Inductor's memory", None, MOST_MEMORY),
        ("cold", "of Inductor's cold compile time", None, MOST_COMPILE),
    ):
        for mode, value in ratios[figure].items():
            if (least is not None and value < least) or (most is not None and value > most):
                yield f"{value:.2f} {word}" + ("" if figure == "cold" else f" ({mode})")


def origins(cases: Cases) -> list[str]:
    """Of which commits the times in each mode and the cold compile times are, and how many compiled side by side."""
    counted: Counter[tuple[str, str, int]] = Counter()
    for case in cases.values():
        parts = case.get("contenders", {})
        found = {f"in {mode} mode": parts.get(f"cuesta{suffix}") for mode, suffix in MODES.items()}
        found["compiled cold"] = case.get("cold", {}).get("cuesta")
        for how, ours in found.items():
            if ours:
                run = ours if "commit" in ours else case
                counted[how, run["commit"], run["processes"]] += 1
    return [
        f"{count} cases {how} of commit {commit}, {processes} compiled side by side"
        for (how, commit, processes), count in sorted(counted.items())
    ]


def relative_of_groups(cases: Cases) -> dict[str, dict[str, Spread]]:
    """Group → contender → time over eager's: geometric mean and quartiles over the cases. For a picture."""
    drawn: dict[str, dict[str, Spread]] = {}
    for label, group in groups_of(cases).items():
        found: dict[str, list[float]] = {}
        for case in group:
            parts = case.get("contenders", {})
            for name, part in parts.items():
                if faster := speedup(part, _eager_beside(part, parts)):
                    found.setdefault(name, []).append(1 / faster.median)
        drawn[f"{label} ({len(group)})"] = {
            name: Spread(statistics.geometric_mean(values), Spread.of(values).lower, Spread.of(values).upper)
            for name, values in found.items()
        }
    return drawn
