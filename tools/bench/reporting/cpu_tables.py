"""Makes the tables of measurements on a CPU: contenders beside each other, and geometric means of their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.tools.bench.cases.kernels import KERNEL_CASES
from cuesta.tools.bench.measuring.timing import Spread, ratios
from cuesta.tools.bench.reporting.results import stage_seconds
from cuesta.tools.bench.reporting.table import NOTHING, Table, megabytes, ratio, seconds, seconds_spread

CALL_SECONDS = 10e-6
"""The approximate overhead of a call through torch.compile."""

Cases = Mapping[str, Mapping[str, Any]]
_KERNELS = {case.name for case in KERNEL_CASES}


@dataclass(frozen=True)
class Cell:
    """A cell's text, and its number if the column has a mean."""

    text: str = NOTHING
    value: float | None = None


Values = Mapping[str, list[float] | None]
"""Contender → its figures, by round; None if it failed."""


@dataclass(frozen=True)
class Row:
    """A case's row. `label` follows the case's name; rows with the same label are averaged together."""

    case: str
    values: Values
    extras: Sequence[Cell] = ()
    """The cells of the columns that a table has beside the contenders and their ratios."""
    label: str = ""


ABOUT_TIMES = """\
Times are medians with quartiles. Ratios are taken round by round; best inductor is its form with the least median.
error: the largest difference from eager, relative to the largest value. limit: the least time that this machine needs
to move a call's bytes, or to compute its products, and which of the two; of limit: the limit over the time (means
leave out limits below 10 µs)."""


def times_table(results: Cases) -> Table:
    """A row for each case."""
    values = {case: _timed(result) for case, result in results.items()}
    held = [name for name in ("inductor", "cuesta") if any(name in row for row in values.values())]
    rows = []
    for case, result in results.items():
        errors = [error for name, error in result["errors"].items() if name != "eager"]
        limits = (
            _limit_cells(result["limit"], result["of_limit"], held) if "limit" in result else [Cell()] * (1 + len(held))
        )
        rows.append(Row(case, values[case], [Cell(f"{max(errors):.1e}") if errors else Cell(), *limits]))
    return _comparison(rows, seconds_spread, ["error", "limit", *(f"{name} of limit" for name in held)])


ABOUT_COMPILE = "From torch.compile to the end of the first call, in a fresh process; cold: every cache folder empty."


def compile_table(results: Cases) -> Table:
    """Two rows for each case: cold and warm."""
    rows = []
    for case, result in results.items():
        for kind in ("cold", "warm"):
            totals = {n: None if "error" in part else [r["total"] for r in part[kind]] for n, part in result.items()}
            stages = [stage_seconds(r) or 0.0 for r in result["cuesta"][kind]] if totals.get("cuesta") else []
            rows.append(Row(case, totals, [Cell(seconds(Spread.of(stages).median)) if stages else Cell()], f", {kind}"))
    return _comparison(rows, seconds_spread, ["cuesta's stages"])


ABOUT_MEMORY = """\
Peak of torch's allocations during a warm call, cuesta's arena included, above those before the call; off by: how far
the prediction is from the peak."""


def memory_table(results: Cases) -> Table:
    """A row for each case."""
    rows = []
    for case, result in results.items():
        peaks = {name: None if "error" in part else [float(part["peak"])] for name, part in result.items()}
        predicted, (peak,) = result.get("cuesta", {}).get("predicted"), peaks.get("cuesta") or [0.0]
        off = Cell(f"{abs(predicted / peak - 1):.1%}") if predicted is not None and peak else Cell()
        rows.append(Row(case, peaks, [Cell(megabytes(predicted)) if predicted is not None else Cell(), off]))
    return _comparison(rows, lambda peak: megabytes(peak.median), ["predicted by cuesta", "off by"], digits=3)


ABOUT_SURVEY = """\
Times are a call's least in many short bursts, in which the contenders take turns. The rows begin with cuesta's slowest
case. error: cuesta's largest difference from eager, relative to the largest value."""


def survey_table(results: Cases) -> Table:
    """A row for each case, by cuesta's time over Inductor's, or eager's if only eager was measured, largest first.
    Cases in which a contender failed come before all others."""
    rows = []
    for case, result in results.items():
        least = {name: [min(times)] if times else None for name, times in _timed(result).items()}
        error = result["errors"].get("cuesta")
        rows.append(Row(case, least, [Cell(f"{error:.1e}") if error is not None else Cell()]))
    others = sorted((n for n in _contenders(rows) if n != "cuesta"), key=lambda n: (n == "eager", n != "inductor"))
    pairs = [(_Side("cuesta", ["cuesta"]), _Side(other, [other])) for other in others]

    def slowness(row: Row) -> float:
        value = _ratio_cell(row.values, *pairs[0]).value if pairs else 0.0
        return math.inf if value is None else value

    rows.sort(key=slowness, reverse=True)
    return _comparison(rows, lambda least: seconds(least.median), ["error"], pairs, {"cases": lambda row: True})


def _timed(result: Mapping[str, Any]) -> dict[str, list[float] | None]:
    failed = {name: None for name in result["failed"] if name != "cost"}
    return {**result["times"], **failed}


_GROUPS: dict[str, Callable[[Row], bool]] = {
    "kernels": lambda row: row.case in _KERNELS,
    "models": lambda row: row.case not in _KERNELS,
    "all": lambda row: True,
}


def _comparison(
    rows: Sequence[Row],
    text: Callable[[Spread], str],
    extras: Sequence[str],
    pairs: Sequence[tuple[_Side, _Side]] | None = None,
    groups: Mapping[str, Callable[[Row], bool]] = _GROUPS,
    digits: int = 2,
) -> Table:
    """A column for each contender, with the `text` of its figures, for each ratio of `pairs` (by default of cuesta to
    the others), and for each of `extras`. Below the rows are the geometric means over the `groups`."""
    names = _contenders(rows)
    pairs = list(_pairs(names)) if pairs is None else pairs
    header = ["case", *names, *(f"{a.label}/{b.label}" for a, b in pairs), *extras]
    cells = [
        [
            *(_figure(row.values, name, text) for name in names),
            *(_ratio_cell(row.values, *pair, digits) for pair in pairs),
            *row.extras,
        ]
        for row in rows
    ]
    return Table(header, _with_means(rows, cells, groups))


@dataclass(frozen=True)
class _Side:
    """One side of a ratio: a contender, or the best of several."""

    label: str
    names: Sequence[str]

    def of(self, values: Values) -> tuple[str, list[float]] | None:
        """The contender with the least median and its figures, None if none has any."""
        found = [(name, figures) for name in self.names if (figures := values.get(name))]
        return min(found, key=lambda each: Spread.of(each[1]).median, default=None)


def _pairs(names: Sequence[str]) -> Iterator[tuple[_Side, _Side]]:
    """The (numerator, denominator) of each ratio: cuesta over Inductor and eager, and the best forms if several."""
    forms = {backend: [n for n in names if n.split(":")[0] == backend] for backend in ("cuesta", "inductor", "eager")}
    plain = {backend: _Side(backend, [backend]) for backend in names if ":" not in backend}
    best = {backend: _Side(f"best {backend}", found) for backend, found in forms.items() if len(found) > 1}
    ours = plain.get("cuesta")
    for theirs in (plain.get("inductor"), best.get("inductor")):
        if ours and theirs:
            yield ours, theirs
    if "cuesta" in best and (theirs := best.get("inductor") or plain.get("inductor")):
        yield best["cuesta"], theirs
    if ours and "eager" in plain:
        yield ours, plain["eager"]


def _ratio_cell(values: Values, ours: _Side, theirs: _Side, digits: int = 2) -> Cell:
    """The ratio of the two sides; a side that is the best of several forms is followed by that form's name."""
    a, b = ours.of(values), theirs.of(values)
    if a is None or b is None:
        return Cell()
    found = ratios(a[1], b[1])
    text = ratio(found) if len(a[1]) > 1 else f"{found.median:.{digits}f}"
    forms = [name for (name, _), side in ((a, ours), (b, theirs)) if len(side.names) > 1]
    return Cell(" ".join([text, *(name.partition(":")[2] or "default" for name in forms)]), found.median)


def _limit_cells(limit: Mapping[str, Any], shares: Mapping[str, float], names: Sequence[str]) -> Iterator[Cell]:
    """The limit, and its share of each time. A limit below the overhead of a call counts in no mean."""
    yield Cell(f"{seconds(limit['seconds'])} {limit['by']}")
    for name in names:
        if (share := shares.get(name)) is None:
            yield Cell()
        else:
            counts = limit["seconds"] >= CALL_SECONDS
            yield Cell(f"{share:.0%}" if share >= 0.1 else f"{share:.1%}", share if counts else None)


def _contenders(rows: Sequence[Row]) -> list[str]:
    """The contenders of all rows, in the order of their first appearance."""
    return list(dict.fromkeys(name for row in rows for name in row.values))


def _figure(values: Values, name: str, text: Callable[[Spread], str]) -> Cell:
    if name not in values:
        return Cell()
    figures = values[name]
    return Cell(text(Spread.of(figures)) if figures else "failed")


def _with_means(
    rows: Sequence[Row], cells: Sequence[Sequence[Cell]], groups: Mapping[str, Callable[[Row], bool]]
) -> list[list[str]]:
    """The rows' texts, followed for each label by the geometric means over each group of several rows."""
    texts = [[row.case + row.label, *(cell.text for cell in each)] for row, each in zip(rows, cells, strict=True)]
    for label in dict.fromkeys(row.label for row in rows):
        labelled = [(row, each) for row, each in zip(rows, cells, strict=True) if row.label == label]
        sizes = set()
        for name, belongs in groups.items():
            members = [each for row, each in labelled if belongs(row)]
            if len(members) > 1 and len(members) not in sizes:
                means = [_mean(column) for column in zip(*members, strict=True)]
                texts.append([f"geometric mean, {len(members)} {name}{label}", *means])
            sizes.add(len(members))
    return texts


def _mean(cells: Sequence[Cell]) -> str:
    """The geometric mean of the cells with a number, with their count if some cells have none."""
    values = [cell.value for cell in cells if cell.value is not None and cell.value > 0]
    if not values:
        return ""
    mean = math.exp(sum(map(math.log, values)) / len(values))
    text = f"{mean:.0%}" if any(cell.text.endswith("%") for cell in cells) else f"{mean:.2f}"
    return text if len(values) == len(cells) else f"{text} ({len(values)})"
