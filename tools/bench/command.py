"""Runs the cases of `cuesta-bench`, prints the tables, and writes every measured number to files."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from cuesta.tools.bench import machine
from cuesta.tools.bench.cases import Case
from cuesta.tools.bench.measuring.limits import Limits, Meter, cache_sizes
from cuesta.tools.bench.measuring.loops import make_loops
from cuesta.tools.bench.measuring.on_cpu import Progress, hold_to, time_case
from cuesta.tools.bench.reporting import cpu_page, gpu_page, suite_tables
from cuesta.tools.bench.reporting.history import about_machine, relative, title_of
from cuesta.tools.bench.reporting.plot import plot_ratios
from cuesta.tools.bench.reporting.results import Results, command_line, read_results
from cuesta.tools.bench.workers.processes import compile_case, compile_on_cpu, memory_peaks, prepare, run_job
from cuesta.tools.bench.workers.waves import measure_wave, profile_side_by_side
from cuesta.torch_private.configs import recurrent_layers

COMPILE_ROUNDS = 3

PAGES = {"cpu": cpu_page, "cuda": gpu_page}
"""How each device's results are shown."""


def run(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], device: str, progress: Progress
) -> tuple[int, Results]:
    """Measures, or reads the results of earlier runs. Returns 1 if anything failed or is wrong, and the results."""
    pages = PAGES[arguments.device]
    if arguments.results:
        results = read_results(arguments.results, tuple(pages.SECTIONS), {case.name for case in cases})
        pages.show(results)
    elif arguments.suite and not (arguments.kernels or arguments.compile):
        results = measure_suite(arguments, cases, contenders, device, progress)
        gpu_page.show_section("suite", results["suite"])
    elif arguments.device == "cuda" or section_of(arguments) == "language":
        results = measure_in_processes(arguments, cases, contenders, device, progress)
        pages.show_summary(results)
    else:
        results = measure(arguments, cases, contenders, progress)
        cpu_page.show(results)
    for path in keep(arguments, results):
        progress(f"wrote {path}")
    if arguments.plot:
        drawn = (
            suite_tables.relative_of_groups(results["suite"])
            if arguments.suite
            else relative(results.get(section_of(arguments), {}))
        )
        names = list(dict.fromkeys(contender for case in drawn.values() for contender in case))
        if not names:
            progress("nothing was timed: there is nothing to draw")
            return 1, results
        plot_ratios(arguments.plot, names, drawn, title_of(about_machine(results["machine"])))
        progress(f"wrote {arguments.plot}")
    return (1 if pages.has_problem(results) else 0), results


def section_of(arguments: argparse.Namespace) -> str:
    """The part of the results that a run measures; a suite's times have one of their own."""
    for name in ("compile", "memory", "survey", "kernels"):
        if getattr(arguments, name):
            return name
    return "language" if arguments.language else "times"


def keep(arguments: argparse.Namespace, results: Results) -> list[Path]:
    """Writes the files that --json and --markdown name, if any. Returns their paths."""
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    if arguments.markdown:
        arguments.markdown.write_text(PAGES[arguments.device].page(results))
    return [path for path in (arguments.json, arguments.markdown) if path]


def measure(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], progress: Progress
) -> Results:
    """Measures one section for all cases on the CPU. Writes the files after each case: a stopped run keeps them."""
    threads, rounds = torch.get_num_threads(), arguments.repeats
    about = machine.describe(threads)
    section = section_of(arguments)
    limits = measured_limits(threads, progress) if section == "times" else None
    if limits:
        about["limits"] = limits.as_dict()
    found: dict[str, Any] = {}
    results = {"machine": about, "commands": [command_line(arguments.argv)], section: found}
    with recurrent_layers():
        for case in cases:
            if arguments.compile:
                found[case.name] = compile_on_cpu(case.name, contenders, threads, rounds or COMPILE_ROUNDS, progress)
            elif arguments.memory:
                found[case.name] = memory_peaks(case.name, contenders, threads, progress)
            else:
                found[case.name] = time_case(case, contenders, rounds, progress, surveys=arguments.survey)
            keep(arguments, results)
    if limits:
        # Measured a second time, so that a disturbance of some seconds does not lower the limits.
        limits = limits.better(measured_limits(threads, progress))
        hold_to(limits, found)
        about["limits"] = limits.as_dict()
    return results


def measured_limits(threads: int, progress: Progress) -> Limits:
    """Measures this machine's limits with `threads` threads."""
    progress("the machine's limits")
    return Meter(make_loops(), threads).limits(cache_sizes(threads))


def measure_suite(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], device: str, progress: Progress
) -> Results:
    """Measures the cases wave by wave. Updates the files after each case: a stopped run keeps the cases before."""
    results = _nothing_yet(arguments)
    about, size = results["machine"], arguments.prepare or max(1, (os.cpu_count() or 1) // 2)
    for begin in range(0, len(cases), size):
        names = [case.name for case in cases[begin : begin + size]]
        wave = measure_wave(
            names, contenders, device, arguments.repeats, arguments.limit, progress, cold=arguments.cold
        )
        for name, found in wave:
            about["gpu"] = found.pop("gpu", None) or about.get("gpu", {})
            for part in found["cold"].values():
                part.pop("gpu", None)
                part["commit"] = about["commit"]
            results["suite"][name] = found | {"commit": about["commit"]}
            keep(arguments, results)
    return results


def _nothing_yet(arguments: argparse.Namespace) -> Results:
    """The results of a run in processes before its first case."""
    about = machine.describe(torch.get_num_threads())
    if arguments.device == "cuda":
        about["driver"] = machine.gpu_driver()
    sections: Results = {name: {} for name in PAGES[arguments.device].SECTIONS}
    return {"machine": about, "commands": [command_line(arguments.argv)], **sections}


def measure_in_processes(
    arguments: argparse.Namespace, cases: Sequence[Case], contenders: Sequence[str], device: str, progress: Progress
) -> Results:
    """Measures every case in a process of its own. Prints its results and updates the files after each case."""
    section, pages = section_of(arguments), PAGES[arguments.device]
    results = _nothing_yet(arguments)
    about = results["machine"]
    for name, found in _measured(arguments, section, [case.name for case in cases], contenders, device, progress):
        parts = found.values() if section == "compile" else [found]
        gpus = [part.pop("gpu", None) for part in parts]
        about["gpu"] = next(filter(None, gpus), about.get("gpu", {}))
        results[section][name] = found
        pages.show_section(section, {name: found})
        keep(arguments, results)
    return results


def _measured(
    arguments: argparse.Namespace,
    section: str,
    cases: Sequence[str],
    contenders: Sequence[str],
    device: str,
    progress: Progress,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case with its results of a section, as soon as it is measured."""
    limit, repeats = arguments.limit, arguments.repeats
    if section == "compile":
        for case in cases:
            yield case, compile_case(case, contenders, device, limit, repeats or 1, progress)
    elif section == "kernels" and arguments.prepare:
        yield from profile_side_by_side(cases, contenders, device, limit, arguments.prepare, progress)
    else:
        what = "times" if section == "language" else section
        threads = torch.get_num_threads() if device == "cpu" else None
        with prepared(arguments, cases, contenders, device, progress) as cache:
            for case in cases:
                yield case, run_job(what, case, contenders, device, repeats, limit, progress, cache, threads)


@contextmanager
def prepared(
    arguments: argparse.Namespace, cases: Sequence[str], contenders: Sequence[str], device: str, progress: Progress
) -> Iterator[Path | None]:
    """With --prepare, a folder of caches that has the code of every case and contender."""
    if not arguments.prepare:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-") as folder:
        cache = Path(folder)
        prepare(cases, contenders, device, arguments.limit, arguments.prepare, cache, progress)
        yield cache
