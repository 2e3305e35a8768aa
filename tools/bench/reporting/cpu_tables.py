"""Makes the tables of measurements on a CPU, with geometric means of their ratios at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.tools.bench.cases.kernels import KERNEL_CASES
from cuesta.tools.bench.measuring.timing import Spread, ratios
from cuesta.tools.bench.reporting.table import NOTHING, Table, megabytes, ratio, seconds, seconds_spread

CALL_SECONDS = 10e-6
"""The approximate overhead of a call through torch.compile."""

_KERNELS = {case.name for case in KERNEL_CASES}


@dataclass(frozen=True)
class Cell:
    """A cell's text, and its number if the column has a mean."""

    text: str = NOTHING
    value: float | None = None


@dataclass(frozen=True)
class Row:
    """A case's row. `label` follows the case's name; rows with the same label are averaged together."""

    case: str
    cells: Sequence[Cell]
    label: str = ""


ABOUT_TIMES = """\
Times are medians with quartiles. Ratios are taken round by round; best inductor is its form with the least median.
error: the largest difference from eager, relative to the largest value. limit: the least time that this machine needs
to move a call's bytes, or to compute its products, and which of the two; of limit: the limit over the time (means
leave out limits below 10 µs)."""


def times_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each case."""
    names = _contenders(result["times"] | result["failed"] for result in results.values())
    pairs = list(_pairs(names))
    held = [name for name in ("inductor", "cuesta") if name in names]
    header = ["case", *names, *(f"{a.label}/{b.label}" for a, b in pairs)]
    header += ["error", "limit", *(f"{name} of limit" for name in held)]
    rows = []
    for case, result in results.items():
        times = result["times"]
        cells = [Cell(seconds_spread(Spread.of(times[n]))) if n in times else _absent(result, n) for n in names]
        cells += [_ratio_cell(times, a, b) for a, b in pairs]
        errors = [error for name, error in result["errors"].items() if name != "eager"]
        cells.append(Cell(f"{max(errors):.1e}") if errors else Cell())
        cells += (
            _limit_cells(result["limit"], result["of_limit"], held) if "limit" in result else [Cell()] * (1 + len(held))
        )
        rows.append(Row(case, cells))
    return _with_means(header, rows)


ABOUT_COMPILE = "From torch.compile to the end of the first call, in a fresh process; cold: every cache folder empty."


def compile_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Two rows for each case: cold and warm."""
    names = _contenders(results.values())
    pairs = list(_pairs(names))
    rows = []
    for case, result in results.items():
        for kind in ("cold", "warm"):
            totals = {n: [r["total"] for r in part[kind]] for n, part in result.items() if "error" not in part}
            cells = [Cell(seconds_spread(Spread.of(totals[n]))) if n in totals else _absent(result, n) for n in names]
            cells += [_ratio_cell(totals, a, b) for a, b in pairs]
            ours = result["cuesta"][kind] if "cuesta" in totals else []
            stages = [sum(sum(g["times"].values()) for g in r["graphs"]) for r in ours]
            cells.append(Cell(seconds(Spread.of(stages).median)) if stages else Cell())
            rows.append(Row(case, cells, f", {kind}"))
    header = ["case", *names, *(f"{a.label}/{b.label}" for a, b in pairs), "cuesta's stages"]
    return _with_means(header, rows)


ABOUT_MEMORY = """\
Peak of torch's allocations during a warm call, cuesta's arena included, above those before the call; off by: how far
the prediction is from the peak."""


def memory_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each case."""
    names = _contenders(results.values())
    pairs = list(_pairs(names))
    rows = []
    for case, result in results.items():
        peaks = {name: [float(part["peak"])] for name, part in result.items() if "error" not in part}
        cells = [Cell(megabytes(peaks[n][0])) if n in peaks else _absent(result, n) for n in names]
        for ours, theirs in pairs:
            cell = _ratio_cell(peaks, ours, theirs)
            cells.append(Cell(f"{cell.value:.3f}", cell.value) if cell.value is not None else cell)
        predicted, peak = result.get("cuesta", {}).get("predicted"), peaks.get("cuesta", [0.0])[0]
        cells.append(Cell(megabytes(predicted)) if predicted is not None else Cell())
        cells.append(Cell(f"{abs(predicted / peak - 1):.1%}") if predicted is not None and peak else Cell())
        rows.append(Row(case, cells))
    header = ["case", *names, *(f"{a.label}/{b.label}" for a, b in pairs), "predicted by cuesta", "off by"]
    return _with_means(header, rows)


@dataclass(frozen=True)
class _Side:
    """One side of a ratio: a contender, or the best of several."""

    label: str
    names: Sequence[str]

    def of(self, values: Mapping[str, list[float]]) -> str | None:
        """The name of the contender with the least median, None if none has values."""
        return min((n for n in self.names if n in values), key=lambda n: Spread.of(values[n]).median, default=None)


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


def _ratio_cell(values: Mapping[str, list[float]], ours: _Side, theirs: _Side) -> Cell:
    """The ratio of the two sides; a side that is the best of several forms is followed by that form's name."""
    a, b = ours.of(values), theirs.of(values)
    if a is None or b is None:
        return Cell()
    found = ratios(values[a], values[b])
    text = ratio(found) if len(values[a]) > 1 else f"{found.median:.2f}"
    forms = [name for name, side in ((a, ours), (b, theirs)) if len(side.names) > 1]
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


def _contenders(results: Any) -> list[str]:
    """The contenders of all cases, in the order of their first appearance."""
    return [name for name in dict.fromkeys(name for result in results for name in result) if name != "cost"]


def _absent(result: Mapping[str, Any], name: str) -> Cell:
    is_failed = name in result.get("failed", result)
    return Cell("failed") if is_failed else Cell()


def _with_means(header: Sequence[str], rows: Sequence[Row]) -> Table:
    """The rows, followed for each label by the geometric means over kernels, over models and over all."""
    texts = [[row.case + row.label, *(cell.text for cell in row.cells)] for row in rows]
    groups: dict[str, Callable[[Row], bool]] = {
        "kernels": lambda row: row.case in _KERNELS,
        "models": lambda row: row.case not in _KERNELS,
        "all": lambda row: True,
    }
    for label in dict.fromkeys(row.label for row in rows):
        labelled = [row for row in rows if row.label == label]
        sizes = set()
        for name, belongs in groups.items():
            members = [row for row in labelled if belongs(row)]
            if len(members) > 1 and len(members) not in sizes:
                means = [_mean([row.cells[i] for row in members]) for i in range(len(header) - 1)]
                texts.append([f"geometric mean, {len(members)} {name}{label}", *means])
            sizes.add(len(members))
    return Table(header, texts)


def _mean(cells: Sequence[Cell]) -> str:
    """The geometric mean of the cells with a number, with their count if some cells have none."""
    values = [cell.value for cell in cells if cell.value is not None and cell.value > 0]
    if not values:
        return ""
    mean = math.exp(sum(map(math.log, values)) / len(values))
    text = f"{mean:.0%}" if any(cell.text.endswith("%") for cell in cells) else f"{mean:.2f}"
    return text if len(values) == len(cells) else f"{text} ({len(values)})"
