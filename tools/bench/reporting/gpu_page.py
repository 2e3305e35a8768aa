"""Shows what was measured on a GPU: on a terminal, and as the page docs/benchmarks/gpu.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.tools.bench.measuring.timing import Spread
from cuesta.tools.bench.reporting import gpu_tables as tables
from cuesta.tools.bench.reporting.markdown import commands_lines, machine_lines, paragraph, table_lines
from cuesta.tools.bench.reporting.table import Table, table

SECTIONS = ("times", "compile", "kernels")


def show(results: Mapping[str, Any]) -> None:
    """Prints the tables of `results`, and of several cases the speed-ups."""
    for section in SECTIONS:
        show_section(section, results.get(section, {}))
    show_speedups(results)


def show_section(section: str, cases: Mapping[str, Any]) -> None:
    """Prints the tables of one section."""
    if section == "times" and cases:
        _print(tables.times_table(cases), tables.notes(cases))
    if section == "compile" and cases:
        _print(tables.compile_table(cases), tables.compile_notes(cases))
    for name, found in cases.items() if section == "kernels" else ():
        if "failed" in found:
            print(f"{name}: failed: {found['failed']}")
        for contender, part in found.get("contenders", {}).items():
            if "failed" in part:
                print(f"{name}, {contender}: failed: {part['failed']}")
                continue
            print(f"{name}, {contender}")
            _print(tables.kernels_table(part), [])
            if contender == "eager":
                _print(tables.by_kernel_table(part), [])
    sys.stdout.flush()


def show_speedups(results: Mapping[str, Any]) -> None:
    """Prints the table of speed-ups if there are several cases."""
    if len(results["times"]) > 1:
        _print(tables.speedup_table(results["times"]), [])


def _print(content: Table, notes: Sequence[str]) -> None:
    print(table(content.header, content.rows))
    print("".join(f"  {note}\n" for note in notes))


def relative(results: Mapping[str, Any]) -> dict[str, dict[str, Spread]]:
    """Case → contender → time relative to eager's."""
    found = {}
    for name, case in results["times"].items():
        contenders = case.get("contenders", {})
        speedups = {c: tables.speedup(part, contenders.get("eager", {})) for c, part in contenders.items()}
        found[name] = {c: inverse(speedup) for c, speedup in speedups.items() if speedup is not None}
    return {name: case for name, case in found.items() if case}


def title(about: Mapping[str, Any]) -> str:
    """The machine of a picture."""
    return f"{about.get('gpu', {}).get('name', about['cpu'])}, torch {about['packages']['torch']}"


def inverse(spread: Spread) -> Spread:
    """The time relative to eager's, from the speed-up over eager."""
    return Spread(1 / spread.median, 1 / spread.upper, 1 / spread.lower)


def has_problem(results: Mapping[str, Any]) -> bool:
    """Whether anything failed or any result is wrong."""
    parts = []
    for section in SECTIONS:
        for found in results.get(section, {}).values():
            parts += [found, *(found.get("contenders", {}) if section != "compile" else found).values()]
    return any("failed" in p or not (p.get("accuracy") or {"right": True})["right"] for p in parts)


def page(results: Mapping[str, Any]) -> str:
    """The whole page."""
    return "\n".join(_lines(results)).rstrip() + "\n"


def _lines(results: Mapping[str, Any]) -> Iterator[str]:
    yield from ("# On a GPU", "", "Written by `cuesta-bench`; measured by:", "")
    yield from commands_lines(results["commands"])
    yield from ("", "## Machine", "")
    yield from _machine(results["machine"])
    if cases := results.get("times"):
        yield from ("", "## Times over eager's", "", tables.ABOUT_SPEEDUPS, "")
        yield from table_lines(tables.speedup_table(cases))
        yield from ("", "## Times, results, memory", "", paragraph(tables.ABOUT_TIMES), "")
        yield from table_lines(tables.times_table(cases))
        yield from _list(tables.notes(cases))
    if cases := results.get("compile"):
        yield from ("", "## Compile times", "", paragraph(tables.ABOUT_COMPILE), "")
        yield from table_lines(tables.compile_table(cases))
        yield from _list(tables.compile_notes(cases))
    if cases := results.get("kernels"):
        yield from ("", "## Where the time goes", "", paragraph(tables.ABOUT_KERNELS))
        for name, found in cases.items():
            for contender, part in found.get("contenders", {}).items():
                if "rows" in part:
                    yield from ("", f"### {name}, {contender}", "")
                    yield from table_lines(tables.kernels_table(part))


def _machine(machine: Mapping[str, Any]) -> Iterator[str]:
    gpu = machine.get("gpu") or {}
    if gpu:
        memory = f"{gpu['memory'] / 2**30:.0f} GiB"
        libraries = f"driver {machine['driver']}, CUDA {gpu['cuda']}, cuDNN {gpu['cudnn']}"
        yield f"- {gpu['name']}, {memory}, {libraries}"
    yield from machine_lines(machine)


def _list(lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield ""
        yield from (f"- {line}" for line in lines)
