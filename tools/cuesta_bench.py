"""cuesta-bench: times eager, Inductor and cuesta, interleaved, and compares the times with this machine's limits.

cuesta-bench --case 'softmax|bert' --json out.json --plot out.png     time
cuesta-bench --history docs/benchmarks --check                        ratios kept from run to run; slower ones fail
cuesta-bench --backends eager,inductor,inductor:freezing,cuesta      Inductor in several forms
cuesta-bench --results a.json b.json --markdown page.md               what runs have kept, as one page
cuesta-bench --case bert_base_eval --compile                          cold and warm compile times
cuesta-bench --case bert_base_eval --memory                           peak memory of a call
cuesta-bench --survey --threads 1 --markdown page.md                  a hundred small functions, our slowest first
cuesta-bench --language --threads 1 --json out.json                   texts token by token, and attention of all kinds
cuesta-bench --device cuda --language --case llama_1b_step            the same with the sizes of Llama 3.2 1B
cuesta-bench --device cuda --case resnet50 --json out.json            models on a GPU: right, time, memory, kernels
cuesta-bench --device cuda --case gpt2_eval --kernels                 where the time goes, kernel by kernel
cuesta-bench --device cuda --suite --first 0 --count 24 --json s.json  models as torch.compile's dashboard has them
cuesta-bench --device cuda --suite --case convnext --kernels           the kernels of these models
cuesta-bench --device cuda --results a.json b.json --markdown page.md what runs have kept, as one page
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from cuesta.tools.backend import register_cuesta
from cuesta.tools.bench import command
from cuesta.tools.bench.backends import inductor_is_missing
from cuesta.tools.bench.cases import CPU_CASES, GPU_CASES, LANGUAGE_CASES, SUITE_CASES, SURVEY_CASES, Case
from cuesta.tools.bench.contenders import CPU_DEFAULT, GPU_DEFAULT, GPU_KERNELS, Contender, unknown_contender
from cuesta.tools.bench.reporting.history import HistoryError, keep
from cuesta.tools.bench.reporting.plot import plot_history
from cuesta.tools.command_line import write_to_stdout
from cuesta.tools.entry_points import ShowVersions


def progress(text: str) -> None:
    """Prints a progress line on stderr."""
    print(f"cuesta-bench: {text}", file=sys.stderr, flush=True)


def parser_of_arguments() -> argparse.ArgumentParser:
    """The parser with every option; `parse` checks what argparse cannot."""
    parser = argparse.ArgumentParser(prog="cuesta-bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--version", action=ShowVersions)
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "cuda"), help="where to measure; each has cases of its own"
    )
    parser.add_argument("--case", default="", metavar="REGEX", help="only cases whose name contains a match")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--threads", type=int, metavar="N", help="torch.set_num_threads(N)")
    parser.add_argument(
        "--repeats", type=int, metavar="N", help="number of rounds (default: by time; --compile: 3, or 1 on a GPU)"
    )
    parser.add_argument(
        "--backends",
        metavar="A,B",
        help="backends of torch.compile, each with a mode after a colon, or inductor:freezing, inductor:cpp_wrapper, "
        "cuesta:freezing, cuesta:tiered, cuesta:in-turn (no kernel begins before the one in front has ended); "
        f"{CPU_DEFAULT} by default; on a GPU {GPU_DEFAULT}, with --kernels {GPU_KERNELS}, and with --compile "
        "cuesta,inductor",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number, with machine and versions")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a page as in docs/benchmarks/")
    parser.add_argument(
        "--results", type=Path, nargs="+", metavar="FILE", help="measure nothing: show the results in files of --json"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="write a plot of times relative to eager")
    parser.add_argument(
        "--language",
        action="store_true",
        help="take language models with a static cache and attention of all kinds: right, time, share of the bandwidth",
    )
    parser.add_argument("--first", type=int, default=0, metavar="N", help="leave out the first N of the cases")
    parser.add_argument("--count", type=int, metavar="N", help="measure at most N cases")
    parser.add_argument(
        "--limit",
        type=float,
        default=300,
        metavar="S",
        help="on a GPU and with --language: most seconds of a case's process (%(default)s)",
    )
    _add_comparison(parser)
    _add_measurements(parser)
    return parser


def _add_comparison(parser: argparse.ArgumentParser) -> None:
    """Adds the options of a comparison with earlier runs."""
    kept = parser.add_argument_group("comparison with earlier runs")
    kept.add_argument(
        "--history",
        type=Path,
        metavar="PATH",
        help="keep the ratios in this file, or in this folder's file for the machine",
    )
    kept.add_argument(
        "--check", action="store_true", help="fail where a case is a tenth slower than its last ratio in --history"
    )
    kept.add_argument(
        "--reference", metavar="NAME", help="the backend that --check compares with (default: inductor, else eager)"
    )
    kept.add_argument("--trend", type=Path, metavar="FILE.svg", help="draw the ratios in --history")


def _add_measurements(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say what is measured instead of times, and those of a GPU."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compile", action="store_true", help="measure compile times instead, cold and warm")
    what.add_argument("--memory", action="store_true", help="measure peak memory instead (a GPU's runs always do)")
    what.add_argument("--survey", action="store_true", help="measure many small cases instead: the least time of each")
    what.add_argument("--kernels", action="store_true", help="GPU: measure time, bytes and operations of each kernel")
    gpu = parser.add_argument_group("on a GPU")
    gpu.add_argument("--suite", action="store_true", help="take the models of torch.compile's dashboard")
    gpu.add_argument(
        "--prepare",
        type=int,
        metavar="N",
        help="compile all cases into one cache first, N processes at a time; of a suite, and with "
        "--kernels, compile N cases at a time (half of the cores), and measure one after the other",
    )
    gpu.add_argument(
        "--no-cold",
        dest="cold",
        action="store_false",
        help="of a suite, measure no cold compile times: each case compiles in the process that times it",
    )


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Any], list[str]]:
    """Arguments, cases and backends. Ends the program with one message if an argument is wrong."""
    parser = parser_of_arguments()
    arguments = parser.parse_args(argv)
    arguments.argv = argv
    on_gpu = arguments.device == "cuda"
    try:
        cases = [case for case in _listed(arguments) if re.search(arguments.case, case.name)][arguments.first :][
            : arguments.count
        ]
    except re.error as error:
        parser.error(f"--case {arguments.case!r} is not a regular expression: {error}")
    if not cases:
        parser.error(f"--case {arguments.case!r} matches no case; --list shows them")
    if arguments.first < 0:
        parser.error(f"--first must be at least 0, not {arguments.first}")
    for name in ("threads", "repeats", "limit", "prepare", "count"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            parser.error(f"--{name} must be at least 1, not {value}")
    if on_gpu and arguments.memory:
        parser.error("--memory is for the CPU: on a GPU, peak memory is part of every run")
    if on_gpu and arguments.survey:
        parser.error("--survey is for the CPU")
    if arguments.language and (arguments.suite or arguments.survey):
        parser.error("--language, --suite and --survey are lists of cases: choose one")
    if not on_gpu and (arguments.kernels or arguments.prepare or arguments.suite):
        parser.error("--kernels, --prepare and --suite need --device cuda")
    if not arguments.cold and not arguments.suite:
        parser.error("--no-cold is for --suite: other runs measure cold compile times with --compile only")
    if arguments.prepare and arguments.compile:
        parser.error("--prepare fills the caches, which --compile needs empty")
    backends = _backends(parser, arguments)
    if (arguments.check or arguments.reference or arguments.trend) and not arguments.history:
        parser.error("--check, --reference and --trend need --history")
    takes_times = not (arguments.compile or arguments.memory or arguments.survey or arguments.kernels)
    if arguments.history and (arguments.suite or arguments.language or not takes_times):
        parser.error("--history keeps ratios of times of the usual cases, which this run does not measure")
    if arguments.history and not os.access(arguments.history.parent, os.W_OK):
        parser.error(f"cannot write {arguments.history}")
    for path in filter(None, (arguments.json, arguments.plot, arguments.markdown, arguments.trend)):
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            parser.error(f"cannot write {path}")
    for path in arguments.results or ():
        if not path.is_file():
            parser.error(f"cannot read {path}")
    if arguments.plot and not (takes_times and "eager" in backends):
        parser.error("--plot draws times relative to eager: it needs a run that measures times, with the backend eager")
    if (arguments.plot or arguments.trend) and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot and --trend need matplotlib: pip install 'cuesta[bench]'")
    return arguments, cases, backends


def _listed(arguments: argparse.Namespace) -> Sequence[Case]:
    """The list of cases that the arguments name."""
    if arguments.language:
        return LANGUAGE_CASES[arguments.device]
    if arguments.suite:
        return SUITE_CASES
    return GPU_CASES if arguments.device == "cuda" else SURVEY_CASES if arguments.survey else CPU_CASES


def _backends(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[str]:
    """The contenders to measure. Registers cuesta's backend; ends the program with a message if one is unknown."""
    text, on_gpu = arguments.backends, arguments.device == "cuda"
    if text is None:
        text = CPU_DEFAULT
        if on_gpu:
            text = "cuesta,inductor" if arguments.compile else GPU_KERNELS if arguments.kernels else GPU_DEFAULT
    backends = [name for name in text.split(",") if name]
    if arguments.compile:
        backends = [name for name in backends if name != "eager"]
    if not backends:
        parser.error(f"--backends {text!r} names no backend to measure")
    register_cuesta()
    for problem in filter(None, map(unknown_contender, backends)):
        parser.error(problem)
    return backends


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 if a backend failed in a case, was wrong on a GPU, or is slower than --check allows."""
    arguments, cases, backends = parse(argv)
    if arguments.list:
        with contextlib.suppress(BrokenPipeError):  # the reader (head, less) has gone
            write_to_stdout("".join(f"{case.name}\n" for case in cases))
        return 0
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda":
        if not arguments.results and not torch.cuda.is_available():
            progress("torch finds no GPU here")
            return 1
    elif (why := inductor_is_missing()) and any(map(is_inductor, backends)):
        progress(f"Inductor is left out: {why}")
        backends = [name for name in backends if not is_inductor(name)]
    status, results = command.run(arguments, cases, backends, arguments.device, progress)
    return max(status, keep_history(arguments, results["machine"], results.get("times", {})))


def is_inductor(contender: str) -> bool:
    """Whether the contender's backend is Inductor, which needs a C++ compiler."""
    return Contender.parse(contender).backend == "inductor"


def keep_history(arguments: argparse.Namespace, about: dict[str, Any], results: dict[str, Any]) -> int:
    """Keeps a run's ratios for --history and draws them for --trend. Returns 1 if --check fails."""
    if not arguments.history:
        return 0
    try:
        history, problems = keep(
            arguments.history, about, results, check=arguments.check, reference=arguments.reference
        )
    except HistoryError as problem:
        progress(str(problem))
        return 1
    for line in problems:
        progress(line)
    if arguments.trend:
        plot_history(arguments.trend, history)
        progress(f"wrote {arguments.trend}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
