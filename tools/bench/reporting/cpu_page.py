"""Shows what was measured on a CPU: on a terminal, and as a section of docs/benchmarks/cpu.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cuesta.tools.bench.measuring.limits import Limits
from cuesta.tools.bench.reporting import cpu_tables as tables
from cuesta.tools.bench.reporting.table import commands_lines, machine_lines, section_lines, table

SECTIONS = {
    "times": ("Times", tables.times_table, tables.ABOUT_TIMES),
    "compile": ("Compile", tables.compile_table, tables.ABOUT_COMPILE),
    "memory": ("Memory", tables.memory_table, tables.ABOUT_MEMORY),
    "survey": ("Survey", tables.survey_table, tables.ABOUT_SURVEY),
}


def show(results: Mapping[str, Any]) -> None:
    """Prints the tables of `results`."""
    for section, (_, table_of, about) in SECTIONS.items():
        if found := results.get(section):
            content = table_of(found)
            print(table(content.header, content.rows))
            print(about)
    if limits := results["machine"].get("limits"):
        print(f"This machine: {Limits.from_dict(limits)}.")


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
    for section, (title, table_of, text) in SECTIONS.items():
        if found := results.get(section):
            yield from section_lines(f"### {title}", text, table_of(found))


def has_problem(results: Mapping[str, Any]) -> bool:
    """Whether anything failed."""
    return any(_has_failure(case) for section in SECTIONS for case in results.get(section, {}).values())


def _has_failure(result: Mapping[str, Any]) -> bool:
    """Whether a contender failed in a case: listed under "failed" beside times, or with its own "error"."""
    return bool(result.get("failed")) or any("error" in part for part in result.values() if isinstance(part, dict))
