"""Shows what was measured on a CPU: on a terminal, and as a section of docs/benchmarks/cpu.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cuesta.tools.bench.measuring.limits import Limits
from cuesta.tools.bench.reporting import cpu_tables as tables
from cuesta.tools.bench.reporting import gpu_tables, language_tables
from cuesta.tools.bench.reporting.columns import Cases
from cuesta.tools.bench.reporting.table import Table, commands_lines, machine_lines, section_lines, table


def _has_failures(cases: Cases) -> bool:
    """Whether a contender failed in a case: listed under "failed" beside times, or with its own "error"."""
    return any(
        bool(case.get("failed")) or any("error" in part for part in case.values() if isinstance(part, dict))
        for case in cases.values()
    )


class Section(NamedTuple):
    """How one kind of measurement is shown."""

    title: str
    table_of: Callable[[Cases], Table]
    about: str
    notes_of: Callable[[Cases], Sequence[str]] = lambda cases: ()
    has_problem: Callable[[Cases], bool] = _has_failures


SECTIONS = {
    "times": Section("Times", tables.times_table, tables.ABOUT_TIMES),
    "compile": Section("Compile", tables.compile_table, tables.ABOUT_COMPILE),
    "memory": Section("Memory", tables.memory_table, tables.ABOUT_MEMORY),
    "survey": Section("Survey", tables.survey_table, tables.ABOUT_SURVEY),
    "language": Section(
        "Language models",
        language_tables.language_table,
        language_tables.ABOUT_LANGUAGE,
        language_tables.language_notes,
        gpu_tables.has_problem,
    ),
}


def show(results: Mapping[str, Any]) -> None:
    """Prints the tables of `results`, and their summary."""
    for name, section in SECTIONS.items():
        if found := results.get(name):
            show_section(name, found)
            print(section.about)
    show_summary(results)
    if limits := results["machine"].get("limits"):
        print(f"This machine: {Limits.from_dict(limits)}.")


def show_section(name: str, cases: Cases) -> None:
    """Prints the table of one section."""
    section = SECTIONS[name]
    content = section.table_of(cases)
    print(table(content.header, content.rows))
    for note in section.notes_of(cases):
        print(f"  {note}")
    sys.stdout.flush()


def show_summary(results: Mapping[str, Any]) -> None:
    """Prints the table of speed-ups of language models if there are several cases."""
    if len(cases := results.get("language", {})) > 1:
        content = gpu_tables.speedup_table(cases)
        print(table(content.header, content.rows))


def page(results: Mapping[str, Any]) -> str:
    """One machine's section of docs/benchmarks/cpu.md."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    about = results["machine"]
    yield f"## On {about['cpu']}, threads: {about['threads']}"
    yield ""
    if commands := results.get("commands"):
        yield from (*commands_lines(commands), "")
    yield from machine_lines(about)
    if limits := about.get("limits"):
        yield f"- {Limits.from_dict(limits)}"
    for name, section in SECTIONS.items():
        if found := results.get(name):
            content, notes = section.table_of(found), section.notes_of(found)
            yield from section_lines(f"### {section.title}", section.about, content, notes)


def has_problem(results: Mapping[str, Any]) -> bool:
    """Whether anything failed or is wrong."""
    return any(section.has_problem(results.get(name, {})) for name, section in SECTIONS.items())
