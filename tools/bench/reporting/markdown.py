"""Formats parts of a Markdown page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.tools.bench.reporting.table import Table


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


def table_lines(table: Table) -> Iterator[str]:
    """A table; the first column flush left, the others flush right."""
    yield _row(table.header)
    yield _row(["---", *["---:"] * (len(table.header) - 1)])
    yield from map(_row, table.rows)


def section_lines(heading: str, about: str, table: Table, notes: Sequence[str] = ()) -> Iterator[str]:
    """A section of a page: a heading, a paragraph, a table, and a list of notes if there are any."""
    yield from ("", heading, "", paragraph(about), "", *table_lines(table))
    if notes:
        yield from ("", *(f"- {note}" for note in notes))


def paragraph(text: str) -> str:
    """Joins lines to one."""
    return " ".join(text.splitlines())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
