"""Runs the cases of `cuesta-bench --device cuda`, prints each one's tables as it ends, and writes every number."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cuesta.tools.bench import machine
from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.measuring.timing import Spread
from cuesta.tools.bench.reporting import gpu_tables as tables
from cuesta.tools.bench.reporting.gpu_page import page
from cuesta.tools.bench.reporting.plot import plot_ratios
from cuesta.tools.bench.reporting.results import Results, command_line, read_results
from cuesta.tools.bench.reporting.table import Table, table
from cuesta.tools.bench.workers.processes import compile_case, prepare, run_job

SECTIONS = ("times", "compile", "kernels")

Progress = Callable[[str], None]


def run(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], device: str, progress: Progress
) -> tuple[int, Results]:
    """Measures, or reads the results of earlier runs. Returns 1 if anything failed or is wrong, and the results."""
    if arguments.results:
        results = read_results(arguments.results, SECTIONS, {case.name for case in cases})
        show(results)
        show_speedups(results)
    else:
        results = measure(arguments, cases, contenders, device, progress)
    if arguments.markdown:
        arguments.markdown.write_text(page(results))
        progress(f"wrote {arguments.markdown}")
    if arguments.plot:
        plot(arguments.plot, results)
        progress(f"wrote {arguments.plot}")
    return (1 if has_problem(results) else 0), results


def measure(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], device: str, progress: Progress
) -> Results:
    """Runs every case. Prints its results and updates the file of --json after each case."""
    section = "compile" if arguments.compile else "kernels" if arguments.kernels else "times"
    about = machine.describe(torch.get_num_threads())
    about["driver"] = machine.gpu_driver()
    results: Results = {"machine": about, "commands": [command_line(arguments.argv)], **{name: {} for name in SECTIONS}}
    with contextlib.ExitStack() as stack:
        cache: Path | None = None
        if arguments.prepare:
            cache = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cuesta-bench-")))
            names = [case.name for case in cases]
            prepare(names, contenders, device, arguments.limit, arguments.prepare, cache, progress)
        for case in cases:
            if section == "compile":
                rounds, limit = arguments.repeats or 1, arguments.limit
                found: dict[str, Any] = compile_case(case.name, contenders, device, limit, rounds, progress)
                gpus = [part.pop("gpu", None) for part in found.values()]
            else:
                repeats = arguments.repeats
                found = run_job(section, case.name, contenders, device, repeats, arguments.limit, progress, cache)
                gpus = [found.pop("gpu", None)]
            about["gpu"] = next(filter(None, gpus), about.get("gpu", {}))
            results[section][case.name] = found
            show({section: {case.name: found}})
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    show_speedups(results)
    return results


def show(results: Mapping[str, Any]) -> None:
    """Prints the tables of `results`."""
    if cases := results.get("times"):
        _print(tables.times_table(cases), tables.notes(cases))
    if cases := results.get("compile"):
        _print(tables.compile_table(cases), tables.compile_notes(cases))
    for name, found in results.get("kernels", {}).items():
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


def plot(path: Path, results: Mapping[str, Any]) -> None:
    """Writes a picture of the times relative to eager's."""
    relative: dict[str, dict[str, Spread]] = {}
    for name, found in results["times"].items():
        contenders = found.get("contenders", {})
        ratios = {c: tables.speedup(part, contenders.get("eager", {})) for c, part in contenders.items()}
        relative[name] = {c: inverse(r) for c, r in ratios.items() if r is not None}
    drawn = list(dict.fromkeys(c for case in relative.values() for c in case))
    about = results["machine"]
    title = f"{about.get('gpu', {}).get('name', about['cpu'])}, torch {about['packages']['torch']}"
    plot_ratios(path, drawn, {name: case for name, case in relative.items() if case}, title)


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
