"""Makes a table of contenders' results from columns: a header, and the cell of a row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cuesta.tools.bench.measuring.timing import Spread, ratios
from cuesta.tools.bench.reporting.table import NOTHING, Table

Cases = Mapping[str, Mapping[str, Any]]
Columns = Sequence[tuple[str, Callable[[Any], str | None]]]
"""Headers, and the functions that make a cell; None stands for a cell without a figure."""


class Part(NamedTuple):
    """What was measured of a contender in a case, or of a case that failed as a whole, beside all contenders."""

    label: str
    found: Mapping[str, Any]
    all: Mapping[str, Mapping[str, Any]]


def parts_of(cases: Cases) -> Iterator[Part]:
    """The parts of the cases of one section."""
    for name, case in cases.items():
        if "failed" in case:
            yield Part(name, {"failed": case["failed"]}, {})
        contenders = case.get("contenders", {} if "failed" in case else case)
        yield from (Part(f"{name}, {contender}", found, contenders) for contender, found in contenders.items())


def device_times(part: Mapping[str, Any]) -> list[float]:
    """A contender's seconds per call on the device, one value a round; empty if the contender failed."""
    return [sample["device"] for sample in part.get("times", ())]


def speedup(part: Mapping[str, Any], eager: Mapping[str, Any]) -> Spread | None:
    """Eager's time over the contender's, round by round."""
    own, base = device_times(part), device_times(eager)
    return ratios(base, own) if own and len(own) == len(base) else None


def median(part: Mapping[str, Any], clock: str) -> float | None:
    """A contender's seconds per call by a clock of its samples; None if the contender was not timed."""
    samples = [sample[clock] for sample in part.get("times", ())]
    return statistics.median(samples) if samples else None


def told(value: Any, text: Callable[[Any], str | None]) -> str | None:
    """The text of a value, None if there is no value."""
    return None if value is None else text(value)


def table_of(first: str, columns: Columns, rows: Iterable[tuple[str, str | None, Any]]) -> Table:
    """The table; `first` is the header of the names. `rows` have a name, a word in place of all cells or None, and what
    the cells are made of."""
    lines = []
    for name, word, row in rows:
        cells = [word] if word else [cell(row) for _, cell in columns]
        lines.append([name, *(cell or NOTHING for cell in cells), *[NOTHING] * (len(columns) - len(cells))])
    return Table([first, *(header for header, _ in columns)], lines)
