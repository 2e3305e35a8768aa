"""Writes the page docs/benchmarks/gpu.md from the results that runs wrote with --json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cuesta.tools.bench.reporting import gpu_tables as tables
from cuesta.tools.bench.reporting.markdown import commands_lines, machine_lines, paragraph, table_lines


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
