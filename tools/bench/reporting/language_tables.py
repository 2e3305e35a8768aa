"""Makes the table of language models and of attention, on either device: times, tokens, and the share of the memory's
bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from cuesta.tools.bench.reporting.columns import Cases, Columns, Part, median, parts_of, speedup, table_of, told
from cuesta.tools.bench.reporting.gpu_tables import gradients_text, notes
from cuesta.tools.bench.reporting.table import Table, megabytes, ratio, seconds

ABOUT_LANGUAGE = """\
time: a call's, as the median of the rounds; × eager: eager's time over the contender's, round by round, with quartiles;
a token: the time over the tokens that a call reads or makes; of bandwidth: the least bytes that the call reads (weights
as they are stored, and what the cache holds before the position) at the memory's measured rate, over the time; first
call: with compiling; memory: a GPU's, peak above weights and inputs; outputs, gradients: the error against a wider
dtype, over eager's (worst output; mean of the gradients, and the worst). Loops are judged by a small model's tokens in
float32, which must be eager's."""


class Row(NamedTuple):
    """What was measured of a contender, and of the case."""

    part: Part
    case: Mapping[str, Any]

    @property
    def time(self) -> float | None:
        """Seconds of a call."""
        return median(self.part.found, "device")


_LANGUAGE: Columns = (
    ("time", lambda row: told(row.time, seconds)),
    ("× eager", lambda row: told(speedup(row.part.found, row.part.all.get("eager", {})), ratio)),
    ("a token", lambda row: _of_tokens(row, lambda time, tokens: seconds(time / tokens))),
    ("tokens/s", lambda row: _of_tokens(row, lambda time, tokens: f"{tokens / time:.0f}")),
    ("of bandwidth", lambda row: told(bandwidth_share(row.case, row.time), "{:.0%}".format)),
    ("first call", lambda row: told(row.part.found.get("compile"), seconds)),
    ("memory", lambda row: told(row.part.found.get("memory"), megabytes)),
    ("outputs", lambda row: told(row.part.found.get("accuracy"), lambda error: f"{error['outputs']:.2f}")),
    ("gradients", lambda row: told(row.part.found.get("accuracy"), gradients_text)),
)


def language_table(cases: Cases) -> Table:
    """A row for each contender of each case."""
    rows = [Row(part, case) for name, case in cases.items() for part in parts_of({name: case})]
    return table_of("case, contender", _LANGUAGE, [(row.part.label, _word(row), row) for row in rows])


def bandwidth_share(case: Mapping[str, Any], time: float | None) -> float | None:
    """The part of a time in which the memory could have given the bytes that the case counts, if it counts any."""
    if time is None or not case.get("reads"):
        return None
    return case["reads"] / case["read_rate"] / time


def language_notes(cases: Cases) -> list[str]:
    """A line for each failure and for what the numbers hide, and one of the memory's rate."""
    rates = [case["read_rate"] for case in cases.values() if "read_rate" in case]
    return [*notes(cases), *_rates_line(rates)]


def _rates_line(rates: list[float]) -> Iterator[str]:
    if rates:
        lowest, highest = (f"{rate / 1e9:.3g}" for rate in (min(rates), max(rates)))
        yield f"memory read at {lowest if lowest == highest else f'{lowest} to {highest}'} GB/s"


def _word(row: Row) -> str | None:
    return "failed" if "failed" in row.part.found else "not timed" if row.time is None else None


def _of_tokens(row: Row, text: Callable[[float, int], str]) -> str | None:
    tokens = row.case.get("tokens")
    return text(row.time, tokens) if tokens and row.time else None
