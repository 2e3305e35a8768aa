"""Runs the cases of `cuesta-bench` on a CPU, prints the tables, and writes every measured number to files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cuesta.reports.quantities import count_text
from cuesta.tools.bench import machine
from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.measuring.limits import Limits, Meter, cache_sizes
from cuesta.tools.bench.measuring.loops import make_loops
from cuesta.tools.bench.measuring.on_cpu import Progress, hold_to, time_case
from cuesta.tools.bench.measuring.survey import ABOUT_SURVEY, survey_case, survey_table
from cuesta.tools.bench.measuring.timing import ratios
from cuesta.tools.bench.reporting import cpu_tables as tables
from cuesta.tools.bench.reporting.markdown import commands_lines, machine_lines, paragraph, table_lines
from cuesta.tools.bench.reporting.plot import plot_ratios
from cuesta.tools.bench.reporting.results import Results, command_line, read_results
from cuesta.tools.bench.reporting.table import table
from cuesta.tools.bench.workers.processes import compile_on_cpu, memory_peaks

COMPILE_ROUNDS = 3

SECTIONS = {
    "times": ("Times", tables.times_table, tables.ABOUT_TIMES),
    "compile": ("Compile", tables.compile_table, tables.ABOUT_COMPILE),
    "memory": ("Memory", tables.memory_table, tables.ABOUT_MEMORY),
    "survey": ("Survey", survey_table, ABOUT_SURVEY),
}


def run(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], progress: Progress
) -> tuple[int, Results]:
    """Measures, or reads the results of earlier runs. Returns 1 if anything failed, else 0, and the results."""
    if arguments.results:
        results = read_results(arguments.results, tuple(SECTIONS), {case.name for case in cases})
    else:
        results = measure(arguments, cases, contenders, progress)
    for section, (_, table_of, about) in SECTIONS.items():
        if found := results.get(section):
            content = table_of(found)
            print(table(content.header, content.rows))
            print(about)
    if limits := results["machine"].get("limits"):
        print(f"This machine: {Limits.from_dict(limits)}.")
    for path in keep(arguments, results):
        progress(f"wrote {path}")
    if arguments.plot:
        plot(arguments.plot, results)
        progress(f"wrote {arguments.plot}")
    found = [case for section in SECTIONS for case in results.get(section, {}).values()]
    return (1 if any(map(has_failure, found)) else 0), results


def measure(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], progress: Progress
) -> Results:
    """Measures one section for all cases. Writes the files after each case, so an interrupted run keeps its results."""
    threads, rounds = torch.get_num_threads(), arguments.repeats
    about = machine.describe(threads)
    takes_times = not (arguments.compile or arguments.memory or arguments.survey)
    limits = measured_limits(threads, progress) if takes_times else None
    if limits:
        about["limits"] = limits.as_dict()
    kinds = {"compile": arguments.compile, "memory": arguments.memory, "survey": arguments.survey, "times": takes_times}
    found: dict[str, Any] = {}
    section = next(name for name, is_asked in kinds.items() if is_asked)
    results = {"machine": about, "commands": [command_line(arguments.argv)], section: found}
    # Without this, Dynamo breaks the graph at nn.LSTM, and no backend compiles the LSTM.
    with torch._dynamo.config.patch(allow_rnn=True):
        for case in cases:
            if arguments.compile:
                found[case.name] = compile_on_cpu(case.name, contenders, threads, rounds or COMPILE_ROUNDS, progress)
            elif arguments.memory:
                found[case.name] = memory_peaks(case.name, contenders, threads, progress)
            elif arguments.survey:
                found[case.name] = survey_case(case, contenders, rounds, progress)
            else:
                found[case.name] = time_case(case, contenders, rounds, progress)
            keep(arguments, results)
    if limits:
        # Measured a second time, so that a disturbance of some seconds does not lower the limits.
        limits = limits.better(measured_limits(threads, progress))
        hold_to(limits, found)
        about["limits"] = limits.as_dict()
    return results


def keep(arguments: argparse.Namespace, results: Results) -> list[Path]:
    """Writes the files that --json and --markdown name, if any. Returns their paths."""
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(page(results)) + "\n")
    return [path for path in (arguments.json, arguments.markdown) if path]


def measured_limits(threads: int, progress: Progress) -> Limits:
    """Measures this machine's limits with `threads` threads."""
    progress("the machine's limits")
    return Meter(make_loops(), threads).limits(cache_sizes(threads))


def page(results: Results) -> Iterator[str]:
    """The lines of one machine's section of docs/benchmarks/cpu.md."""
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
            yield from ("", f"### {title}", "", paragraph(text), "")
            yield from table_lines(table_of(found))


def plot(path: Path, results: Results) -> None:
    """Writes a picture of the times relative to eager's."""
    relative = {
        name: {contender: ratios(t, result["times"]["eager"]) for contender, t in result["times"].items()}
        for name, result in results.get("times", {}).items()
        if "eager" in result["times"]
    }
    drawn = list(dict.fromkeys(contender for case in relative.values() for contender in case))
    about = results["machine"]
    title = f"{about['cpu']}, {count_text(about['threads'], 'thread')}, torch {about['packages']['torch']}"
    plot_ratios(path, drawn, relative, title)


def has_failure(result: Mapping[str, Any]) -> bool:
    """Whether a contender failed in a case: listed under "failed" beside times, or with its own "error"."""
    return bool(result.get("failed")) or any("error" in part for part in result.values() if isinstance(part, dict))
