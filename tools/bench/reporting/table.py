"""Formats tables, as plain text and in Markdown, other parts of a page, and numbers with units."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuesta.tools.bench.measuring.timing import Spread

NOTHING = "–"
"""The text of a cell without a figure."""


@dataclass(frozen=True)
class Table:
    """A table of text; the first column names the row."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as text. Columns are as wide as their longest cell, the first flush left, the others flush right."""
    cells = [list(header), *map(list, rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


def seconds(value: float) -> str:
    """Three digits, in s, ms or µs."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}" if value * factor < 1000 else f"{value * factor:.0f} {unit}"
    return f"{value * 1e6:.3g} µs"


def seconds_spread(spread: Spread) -> str:
    """The median, and by how many per cent the quartiles lie below and above it."""
    below = (1 - spread.lower / spread.median) * 100
    above = (spread.upper / spread.median - 1) * 100
    return f"{seconds(spread.median)} −{below:.0f}+{above:.0f}%"


def ratio(spread: Spread) -> str:
    """The median with its quartiles."""
    return f"{spread.median:.2f} [{spread.lower:.2f} {spread.upper:.2f}]"


def megabytes(count: float) -> str:
    """Bytes in MB (10^6), or kB below one."""
    return f"{count / 1e6:.2f} MB" if count >= 1e6 else f"{count / 1e3:.2f} kB"


def commands_lines(commands: Sequence[str]) -> Iterator[str]:
    """The command lines of the measurements, as they were typed."""
    yield "```"
    yield from commands
    yield "```"


def machine_lines(machine: Mapping[str, Any]) -> Iterator[str]:
    """The machine of a measurement as a list: host, versions, commit."""
    yield f"- {machine['cpu']}, {machine['cores']} cores, {machine['system']}"
    versions = ", ".join(f"{name} {version}" for name, version in machine["packages"].items() if version)
    yield f"- Python {machine['python']}, {versions}"
    yield f"- commit {machine['commit']}, {machine['time']}"


def table_lines(content: Table) -> Iterator[str]:
    """A table; the first column flush left, the others flush right."""
    yield _row(content.header)
    yield _row(["---", *["---:"] * (len(content.header) - 1)])
    yield from map(_row, content.rows)


def section_lines(heading: str, about: str, content: Table, notes: Sequence[str] = ()) -> Iterator[str]:
    """A section of a page: a heading, a paragraph, a table, and a list of notes if there are any."""
    yield from ("", heading, "", paragraph(about), "", *table_lines(content))
    if notes:
        yield from ("", *(f"- {note}" for note in notes))


def paragraph(text: str) -> str:
    """Joins lines to one."""
    return " ".join(text.splitlines())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
