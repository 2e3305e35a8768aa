"""Shows what was measured on a GPU: on a terminal, and as the page docs/benchmarks/gpu.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.tools.bench.reporting import gpu_tables as tables
from cuesta.tools.bench.reporting import language_tables, suite_tables
from cuesta.tools.bench.reporting.columns import parts_of
from cuesta.tools.bench.reporting.table import (
    Table,
    commands_lines,
    machine_lines,
    paragraph,
    section_lines,
    table,
    table_lines,
)

SECTIONS = ("times", "compile", "kernels", "suite", "language")


def show(results: Mapping[str, Any]) -> None:
    """Prints the tables of `results`, and their summary."""
    for section in SECTIONS:
        show_section(section, results.get(section, {}))
    show_summary(results)


def show_section(section: str, cases: Mapping[str, Any]) -> None:
    """Prints the tables of one section."""
    if section == "suite" and cases:
        for content in (suite_tables.cases_table(cases), suite_tables.means_table(cases)):
            _print(content)
        print("".join(f"  {line}\n" for line in suite_tables.shortfalls(cases)))
    elif section == "language" and cases:
        _print(language_tables.language_table(cases), language_tables.language_notes(cases))
    elif section in ("times", "compile") and cases:
        table_of = tables.times_table if section == "times" else tables.compile_table
        _print(table_of(cases), tables.notes(cases))
    for label, part, contenders in parts_of(cases) if section == "kernels" else ():
        if "failed" in part:
            print(f"{label}: failed: {part['failed']}")
            continue
        print(label)
        _print(tables.kernels_table(part))
        if part is contenders.get("eager"):
            _print(tables.by_kernel_table(part))
    sys.stdout.flush()


def show_summary(results: Mapping[str, Any]) -> None:
    """Prints the table of speed-ups if there are several cases, and the kernels that are far from their bound."""
    for section in ("times", "language"):
        if len(cases := results.get(section, {})) > 1:
            _print(tables.speedup_table(cases))
    far = tables.far_from_bound(results.get("kernels", {}))
    if far.rows:
        print(tables.ABOUT_FAR)
        _print(far)


def _print(content: Table, notes: Sequence[str] = ()) -> None:
    print(table(content.header, content.rows))
    print("".join(f"  {note}\n" for note in notes))


def has_problem(results: Mapping[str, Any]) -> bool:
    """Whether anything failed or any result is wrong."""
    return any(tables.has_problem(results.get(section, {})) for section in SECTIONS)


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    return "\n".join(_lines(results)).rstrip() + "\n"


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# On a GPU", "", "Written by `cuesta-bench`; measured by:", "")
    yield from commands_lines(results["commands"])
    yield from ("", "## Machine", "")
    machine = results["machine"]
    if gpu := machine.get("gpu"):
        libraries = f"driver {machine['driver']}, CUDA {gpu['cuda']}, cuDNN {gpu['cudnn']}"
        yield f"- {gpu['name']}, {gpu['memory'] / 2**30:.0f} GiB, {libraries}"
    yield from machine_lines(machine)
    if cases := results.get("times"):
        yield from section_lines("## Times over eager's", tables.ABOUT_SPEEDUPS, tables.speedup_table(cases))
        content = tables.times_table(cases)
        yield from section_lines("## Times, results, memory", tables.ABOUT_TIMES, content, tables.notes(cases))
    if cases := results.get("compile"):
        content = tables.compile_table(cases)
        yield from section_lines("## Compile times", tables.ABOUT_COMPILE, content, tables.notes(cases))
    if cases := results.get("suite"):
        means, all_cases = suite_tables.means_table(cases), suite_tables.cases_table(cases)
        origins, short = suite_tables.origins(cases), suite_tables.shortfalls(cases)
        yield from section_lines("## Suite", suite_tables.ABOUT_MEANS, means, origins)
        yield from ("", "## What falls short", "", *(f"- {line}" for line in short or ["nothing"]))
        yield from section_lines("## Cases of the suite", suite_tables.ABOUT_CASES, all_cases)
    if cases := results.get("language"):
        content, notes = language_tables.language_table(cases), language_tables.language_notes(cases)
        yield from section_lines("## Language models", language_tables.ABOUT_LANGUAGE, content, notes)
    if cases := results.get("kernels"):
        yield from ("", "## Where the time goes", "", paragraph(tables.ABOUT_KERNELS))
        for label, part, _ in parts_of(cases):
            if "rows" in part:
                yield from ("", f"### {label}", "", *table_lines(tables.kernels_table(part)))
        yield from section_lines("## Kernels far from their bound", tables.ABOUT_FAR, tables.far_from_bound(cases))
