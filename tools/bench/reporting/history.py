"""Keeps ratios of times that earlier runs measured on this machine, as JSON, and tells whether today's are slower.

    {"format": 1, "about": {cpu, cores, threads, gpu, torch},
     "runs": [{time, commit, load, packages, "ratios": {case: {"cuesta/inductor": [lower, median, upper]}}}]}

A file is for one machine and one version of torch: ratios of others are not comparable. For each case it keeps the
ratio of the time of each cuesta contender to that of each other contender, by round, as median and quartiles.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuesta.reports.quantities import count_text
from cuesta.tools.bench.measuring.timing import Spread, ratios
from cuesta.tools.bench.reporting.table import ratio, table

FORMAT = 1
SLOWER = 1.10
"""A case counts as slower if its median grew by more than this factor."""

Ratios = dict[str, dict[str, Spread]]
"""Case → "contender/reference" → ratio of their times."""


class HistoryError(Exception):
    """The file is no history, or one of another machine; the text says which."""


@dataclass(frozen=True)
class Verdict:
    """A case's ratio today beside the last ratio kept; None for a missing side."""

    case: str
    pair: str
    kept: Spread | None
    today: Spread | None

    @property
    def row(self) -> tuple[str, ...]:
        """A table row: case, pair, kept ratio, today's ratio, verdict in words."""
        word = "slower" if self.is_slower else "new" if self.kept is None else "as fast"
        return (self.case, self.pair, _text(self.kept), _text(self.today), word)

    @property
    def is_slower(self) -> bool:
        """Whether the median grew by more than a tenth and the quartiles do not overlap, or today's time is missing."""
        if self.kept is None:
            return False
        if self.today is None:
            return True
        return self.today.median > SLOWER * self.kept.median and self.today.lower > self.kept.upper

    def __str__(self) -> str:
        if self.today is None:
            return f"{self.case}: {self.pair} was {_text(self.kept)}, and was not measured today"
        if self.kept is None:
            return f"{self.case}: {self.pair} is {_text(self.today)}, for the first time"
        change = (self.today.median / self.kept.median - 1) * 100
        said = f"{self.case}: {self.pair} was {_text(self.kept)}, is {_text(self.today)}"
        return f"{said}, {abs(change):.0f} % {'slower' if change > 0 else 'faster'}"


@dataclass
class History:
    """The runs of a machine, oldest first."""

    about: dict[str, Any]
    runs: list[dict[str, Any]]

    @staticmethod
    def read(path: Path, about: Mapping[str, Any]) -> History:
        """Reads `path`; an empty history if there is no such file. Raises HistoryError."""
        if not path.exists():
            return History(dict(about), [])
        try:
            content = json.loads(path.read_text())
            history = History(content["about"], content["runs"])
            is_known = content["format"] == FORMAT and all(isinstance(run["ratios"], dict) for run in history.runs)
        except (ValueError, KeyError, TypeError) as error:
            raise HistoryError(f"{path} is not a history of cuesta-bench: {error!r}") from None
        if not is_known:
            raise HistoryError(f"{path} has format {content['format']}; format {FORMAT} is valid")
        for name, value in about.items():
            if history.about.get(name) != value:
                raise HistoryError(f"{path} is of {name} {history.about.get(name)!r}; here it is {value!r}")
        return history

    def append(self, run: Mapping[str, Any], found: Ratios) -> None:
        """Adds a run if it has ratios; `run` holds its time and commit."""
        kept = {
            case: {pair: [round(x, 4) for x in (s.lower, s.median, s.upper)] for pair, s in pairs.items()}
            for case, pairs in found.items()
            if pairs
        }
        if kept:
            self.runs.append({**run, "ratios": kept})

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        content = {"format": FORMAT, "about": self.about, "runs": self.runs}
        descriptor, temporary = tempfile.mkstemp(suffix=".tmp", dir=path.parent)
        with open(descriptor, "w") as file:
            file.write(json.dumps(content, indent=1) + "\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)

    def series(self, case: str, pair: str) -> list[Spread | None]:
        """The ratio in each run, None for runs that did not measure it."""
        found = [run["ratios"].get(case, {}).get(pair) for run in self.runs]
        return [_spread(values) if values else None for values in found]

    def last(self, case: str, pair: str) -> Spread | None:
        """The most recent ratio kept, if any."""
        return next(filter(None, reversed(self.series(case, pair))), None)

    def verdicts(self, today: Ratios, reference: str | None = None) -> list[Verdict]:
        """One verdict for each case and each cuesta contender, relative to `reference`. By default the reference is the
        first of Inductor in the same mode, Inductor, and eager that both sides have, or else that one side has."""
        found = []
        for case, pairs in today.items():
            kept = sorted({pair for run in self.runs for pair in run["ratios"].get(case, {})})
            for contender in dict.fromkeys(pair.split("/")[0] for pair in [*pairs, *kept]):
                both = [pair for pair in pairs if pair in kept]
                judged = (_judged(side, contender, reference) for side in (both, kept, [*pairs]))
                if pair := next(filter(None, judged), None):
                    found.append(Verdict(case, pair, self.last(case, pair), pairs.get(pair)))
        return found


def ratios_of(cases: Mapping[str, Mapping[str, Any]]) -> Ratios:
    """Ratios from the "times" section of a cuesta-bench run, on a CPU or a GPU. Empty for a case without times."""
    found: Ratios = {}
    for case, result in cases.items():
        times = times_of(result)
        ours = [name for name in times if name.split(":")[0] == "cuesta"]
        others = [name for name in times if name not in ours]
        found[case] = {f"{a}/{b}": ratios(times[a], times[b]) for a in ours for b in others}
    return found


def relative(cases: Mapping[str, Mapping[str, Any]]) -> Ratios:
    """Case → contender → time relative to eager's, from the same section; of cases in which eager was timed."""
    times = {case: times_of(result) for case, result in cases.items()}
    return {
        case: {n: ratios(t, each["eager"]) for n, t in each.items()} for case, each in times.items() if "eager" in each
    }


def about_machine(described: Mapping[str, Any]) -> dict[str, Any]:
    """Identifies the machine of a history, from a run's description: the GPU, whatever its host, or the CPU."""
    gpu = (described.get("gpu") or {}).get("name")
    torch = described["packages"]["torch"]
    host = {name: None if gpu else described[name] for name in ("cpu", "cores", "threads")}
    return host | {"gpu": gpu, "torch": torch}


def title_of(about: Mapping[str, Any]) -> str:
    """The title of a picture, from what `about_machine` gives."""
    machine = about["gpu"] or f"{about['cpu']}, {count_text(about['threads'], 'thread')}"
    return f"{machine}, torch {about['torch']}"


def about_run(described: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run's description that is kept beside its ratios."""
    return {name: described[name] for name in ("time", "commit", "load", "packages")}


def file_of(path: Path, about: Mapping[str, Any]) -> Path:
    """`path`, or, if `path` is a folder, the file in it for this machine and torch."""
    if not path.is_dir():
        return path
    machine = about["gpu"] or f"{about['cpu']} {about['threads']} threads"
    name = re.sub(r"[^a-z0-9.]+", "_", f"{machine} torch {about['torch']}".lower())
    return path / f"{name.strip('_')}.json"


def keep(
    path: Path,
    described: Mapping[str, Any],
    cases: Mapping[str, Mapping[str, Any]],
    *,
    check: bool = False,
    reference: str | None = None,
) -> tuple[History, list[str]]:
    """Appends a run's ratios to the history in `path` and prints them beside those kept before.

    With `check`, slower cases are not kept, so that the next run is compared with the same ratios. Returns the history
    and a line for each slower case, or one that says that nothing could be compared. Raises HistoryError.
    """
    about = about_machine(described)
    path = file_of(path, about)
    history = History.read(path, about)
    today = ratios_of(cases)
    verdicts = history.verdicts(today, reference)
    print(table(("case", "ratio", "kept", "today", "verdict"), [verdict.row for verdict in verdicts]))
    problems = []
    if check:
        problems = [str(verdict) for verdict in verdicts if verdict.is_slower]
        if all(verdict.kept is None for verdict in verdicts):
            problems.append(f"no case of this run has a ratio in {path}: nothing was checked")
        slower = {verdict.case for verdict in verdicts if verdict.is_slower}
        today = {case: pairs for case, pairs in today.items() if case not in slower}
    history.append(about_run(described), today)
    history.write(path)
    return history, problems


def times_of(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Contender → seconds by round. Omits contenders that have fewer rounds than another."""
    times = dict(result.get("times", {}))
    for name, part in result.get("contenders", {}).items():
        times[name] = [sample["device"] for sample in part.get("times", ())]
    most = max(map(len, times.values()), default=0)
    return {name: values for name, values in times.items() if values and len(values) == most}


def _judged(pairs: Sequence[str], contender: str, reference: str | None) -> str | None:
    mode = contender.partition(":")[2]
    wanted = [reference] if reference else [f"inductor:{mode}", "inductor", "eager"]
    return next((f"{contender}/{name}" for name in wanted if f"{contender}/{name}" in pairs), None)


def _spread(values: Sequence[float]) -> Spread:
    lower, median, upper = values
    return Spread(median, lower, upper)


def _text(spread: Spread | None) -> str:
    return ratio(spread) if spread is not None else "–"
