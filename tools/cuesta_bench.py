"""cuesta-bench: eager, Inductor and cuesta, interleaved in one process.

cuesta-bench --case 'softmax|bert' --json out.json --plot out.png     time
cuesta-bench --history docs/benchmarks --check                        ratios kept from run to run; slower ones fail
cuesta-bench --case bert_base_eval --compile                          cold and warm compile times
cuesta-bench --case bert_base_eval --memory                           peak memory of a call
cuesta-bench --device cuda --case resnet50 --json out.json            models on a GPU: right, time, memory, kernels
cuesta-bench --device cuda --case gpt2_eval --kernels                 where the time goes, kernel by kernel
cuesta-bench --device cuda --results a.json b.json --markdown page.md what runs have kept, as one page
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from cuesta.tools.backend import register_cuesta
from cuesta.tools.bench import machine
from cuesta.tools.bench.backends import fallbacks, inductor_is_missing, one_line, unknown_backend
from cuesta.tools.bench.cases import CASES
from cuesta.tools.bench.gpu import command
from cuesta.tools.bench.gpu.cases import CASES as GPU_CASES
from cuesta.tools.bench.gpu.contenders import DEFAULT, unknown_contender
from cuesta.tools.bench.history import HistoryError, keep
from cuesta.tools.bench.plot import plot_history, plot_ratios
from cuesta.tools.bench.processes import compile_rounds, memory_peaks
from cuesta.tools.bench.table import megabytes, ratio, seconds, seconds_spread, table
from cuesta.tools.bench.timing import Spread, interleaved, ratios
from cuesta.tools.bench.workload import BenchCase

COMPILE_ROUNDS = 3


def progress(text: str) -> None:
    """A line on stderr: what is being done now."""
    print(f"cuesta-bench: {text}", file=sys.stderr, flush=True)


def time_case(case: BenchCase, backends: Sequence[str], repeats: int | None) -> dict[str, Any]:
    """{"times": {backend: seconds per round}, "errors": {backend: difference from eager}, "failed": {backend: why}}."""
    progress(f"{case.name}: build")
    workload = case.make()
    calls: dict[str, Callable[[], Any]] = {}
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    with torch.set_grad_enabled(bool(workload.parameters)):
        reference = workload.results(workload.compiled("eager")())
        for backend in backends:
            progress(f"{case.name}: first calls, {backend}")
            try:
                call = workload.compiled(backend)
                errors[backend] = difference(workload.results(call()), reference)
                call()
                if backend == "cuesta" and (reasons := fallbacks()):
                    raise RuntimeError(f"not compiled, but run op by op in Python: {reasons[0]}")
            except Exception as error:
                failed[backend] = one_line(error)
                progress(f"{case.name}: {backend} failed: {failed[backend]}")
            else:
                calls[backend] = call
        progress(f"{case.name}: time")
        times = interleaved(calls, repeats) if calls else {}
    torch._dynamo.reset()
    return {"times": times, "errors": errors, "failed": failed}


def difference(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference of any element, relative to the largest element of all."""
    if len(actual) != len(expected):
        return float("inf")
    pairs = [(a.double(), e.double()) for a, e in zip(actual, expected, strict=True) if e.numel() > 0]
    scale = max((float(e.abs().max()) for _, e in pairs), default=0.0)
    return max((float((a - e).abs().max()) for a, e in pairs), default=0.0) / (scale or 1.0)


def time_rows(name: str, result: dict[str, Any], backends: Sequence[str]) -> list[str]:
    """One row of the table of times."""
    times = result["times"]
    row = [name]
    row += [seconds_spread(Spread.of(times[b])) if b in times else "failed" for b in backends]
    for base in ("inductor", "eager"):
        both = base in times and "cuesta" in times
        row.append(ratio(ratios(times["cuesta"], times[base])) if both else "–")
    worst = max((error for backend, error in result["errors"].items() if backend != "eager"), default=0.0)
    row.append(f"{worst:.1e}")
    return row


def run_times(arguments: argparse.Namespace, cases: Sequence[BenchCase], backends: Sequence[str]) -> dict[str, Any]:
    """Measures and prints times; writes the plot."""
    results = {case.name: time_case(case, backends, arguments.repeats) for case in cases}
    header = ["case", *backends, "cuesta/inductor", "cuesta/eager", "error"]
    print(table(header, [time_rows(name, result, backends) for name, result in results.items()]))
    print(
        "Times are medians with quartiles; error is the largest difference from eager, relative to the largest value."
    )
    if arguments.plot:
        relative = {
            name: {b: ratios(t, result["times"]["eager"]) for b, t in result["times"].items()}
            for name, result in results.items()
            if "eager" in result["times"]
        }
        about = machine.describe(torch.get_num_threads())
        title = f"{about['cpu']}, {about['threads']} threads, torch {torch.__version__}"
        plot_ratios(arguments.plot, backends, relative, title)
        progress(f"wrote {arguments.plot}")
    return results


def run_compile(arguments: argparse.Namespace, cases: Sequence[BenchCase], backends: Sequence[str]) -> dict[str, Any]:
    """Measures and prints compile times."""
    rounds = arguments.repeats or COMPILE_ROUNDS
    results = {}
    rows = []
    for case in cases:
        result = results[case.name] = compile_rounds(case.name, backends, torch.get_num_threads(), rounds, progress)
        for kind in ("cold", "warm"):
            totals = {b: [r["total"] for r in result[b][kind]] for b in backends if "error" not in result[b]}
            row = [f"{case.name}, {kind}"]
            row += [seconds_spread(Spread.of(totals[b])) if b in totals else "failed" for b in backends]
            both = {"inductor", "cuesta"} <= totals.keys()
            row.append(ratio(ratios(totals["cuesta"], totals["inductor"])) if both else "–")
            if "cuesta" in totals:
                times = [sum(sum(g["times"].values()) for g in r["graphs"]) for r in result["cuesta"][kind]]
                row.append(seconds(Spread.of(times).median))
            else:
                row.append("–")
            rows.append(row)
    print(table(["case", *backends, "cuesta/inductor", "cuesta's stages"], rows))
    print("From torch.compile to the end of the first call, in a fresh process; cold: every cache folder empty.")
    return results


def run_memory(arguments: argparse.Namespace, cases: Sequence[BenchCase], backends: Sequence[str]) -> dict[str, Any]:
    """Measures and prints peak memory."""
    results = {}
    rows = []
    for case in cases:
        result = results[case.name] = memory_peaks(case.name, backends, torch.get_num_threads(), progress)
        peaks = {b: r["peak"] for b, r in result.items() if "error" not in r}
        row = [case.name, *(megabytes(peaks[b]) if b in peaks else "failed" for b in backends)]
        both = {"inductor", "cuesta"} <= peaks.keys()
        row.append(f"{peaks['cuesta'] / peaks['inductor']:.3f}" if both else "–")
        predicted = result.get("cuesta", {}).get("predicted")
        row.append(megabytes(predicted) if predicted is not None else "–")
        rows.append(row)
    print(table(["case", *backends, "cuesta/inductor", "predicted by cuesta"], rows))
    print("Peak of torch's allocations above what was there before a warm call, cuesta's arena among them.")
    return results


def parser_of_arguments() -> argparse.ArgumentParser:
    """Every option; `parse` checks what argparse cannot."""
    parser = argparse.ArgumentParser(prog="cuesta-bench", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"), help="each has its own cases")
    parser.add_argument("--case", default="", metavar="REGEX", help="only cases whose name contains a match")
    parser.add_argument("--list", action="store_true", help="list the cases and exit")
    parser.add_argument("--threads", type=int, metavar="N", help="torch.set_num_threads(N)")
    parser.add_argument("--repeats", type=int, metavar="N", help="rounds (chosen by time; --compile: 3, on a GPU 1)")
    parser.add_argument(
        "--backends",
        metavar="A,B",
        help=f"eager,inductor,cuesta by default; on a GPU with modes: {DEFAULT}, and of these, cuesta and eager with "
        "--kernels, cuesta and inductor with --compile",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every number, with machine and versions")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="write a plot of times relative to eager")
    kept = parser.add_argument_group("from run to run")
    kept.add_argument(
        "--history", type=Path, metavar="PATH", help="keep the ratios in this file, or in this folder's for the machine"
    )
    kept.add_argument(
        "--check", action="store_true", help="fail where a case is a tenth slower than its last ratio in --history"
    )
    kept.add_argument("--reference", metavar="NAME", help="over whom --check takes ratios (inductor, else eager)")
    kept.add_argument("--trend", type=Path, metavar="FILE.svg", help="draw the ratios that --history has kept")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--compile", action="store_true", help="compile times instead, cold and warm")
    what.add_argument("--memory", action="store_true", help="peak memory instead (on a GPU it is in every run)")
    what.add_argument("--kernels", action="store_true", help="GPU: time, bytes, operations of each kernel instead")
    gpu = parser.add_argument_group("on a GPU")
    gpu.add_argument("--limit", type=float, default=300, metavar="S", help="seconds for a process (%(default)s)")
    gpu.add_argument(
        "--prepare", type=int, metavar="N", help="first compile everything, N processes at a time, into one cache"
    )
    gpu.add_argument("--markdown", type=Path, metavar="FILE", help="write the page of docs/benchmarks/")
    gpu.add_argument(
        "--results", type=Path, nargs="+", metavar="FILE", help="measure nothing: show what --json has kept"
    )
    return parser


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[Any], list[str]]:
    """Arguments, cases and backends. Ends the program with one message where they are wrong."""
    parser = parser_of_arguments()
    arguments = parser.parse_args(argv)
    arguments.argv = argv
    on_gpu = arguments.device == "cuda"
    try:
        cases = [case for case in (GPU_CASES if on_gpu else CASES) if re.search(arguments.case, case.name)]
    except re.error as error:
        parser.error(f"--case {arguments.case!r} is no regular expression: {error}")
    if not cases:
        parser.error(f"--case {arguments.case!r} matches no case; --list shows them")
    for name in ("threads", "repeats", "limit", "prepare"):
        if (value := getattr(arguments, name)) is not None and value < 1:
            parser.error(f"--{name} must be at least 1, not {value}")
    if on_gpu and arguments.memory:
        parser.error("--memory is for the CPU: on a GPU, peak memory is part of every run")
    if not on_gpu and (arguments.kernels or arguments.markdown or arguments.results or arguments.prepare):
        parser.error("--kernels, --markdown, --results and --prepare need --device cuda")
    if arguments.prepare and arguments.compile:
        parser.error("--prepare fills the caches that --compile wants empty")
    backends = _backends(parser, arguments)
    if (arguments.check or arguments.reference or arguments.trend) and not arguments.history:
        parser.error("--check, --reference and --trend need --history")
    if arguments.history and (arguments.compile or arguments.memory or arguments.kernels):
        parser.error("--history keeps ratios of times, which this run does not take")
    if arguments.history and not os.access(arguments.history.parent, os.W_OK):
        parser.error(f"cannot write {arguments.history}")
    for path in filter(None, (arguments.json, arguments.plot, arguments.markdown, arguments.trend)):
        if path.is_dir() or not os.access(path.parent, os.W_OK):
            parser.error(f"cannot write {path}")
    for path in arguments.results or ():
        if not path.is_file():
            parser.error(f"cannot read {path}")
    if arguments.plot and (arguments.compile or arguments.memory or arguments.kernels or "eager" not in backends):
        parser.error("--plot draws times relative to eager: of a run that takes times, and with the backend eager")
    if (arguments.plot or arguments.trend) and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot and --trend need matplotlib: pip install 'cuesta[bench]'")
    return arguments, cases, backends


def _backends(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> list[str]:
    """The backends to measure, or contenders on a GPU."""
    text, on_gpu = arguments.backends, arguments.device == "cuda"
    if text is None:
        text = "eager,inductor,cuesta"
        if on_gpu:
            text = "cuesta,inductor" if arguments.compile else "cuesta,eager" if arguments.kernels else DEFAULT
    backends = [name for name in text.split(",") if name]
    if arguments.compile:
        backends = [name for name in backends if name != "eager"]
    if not backends:
        parser.error(f"--backends {text!r} names none to measure")
    register_cuesta()
    for problem in filter(None, map(unknown_contender if on_gpu else unknown_backend, backends)):
        parser.error(problem)
    return backends


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 1 where a backend failed in a case, was wrong on a GPU, or is slower than --check allows."""
    arguments, cases, backends = parse(argv)
    if arguments.list:
        print("\n".join(case.name for case in cases))
        return 0
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    if arguments.device == "cuda":
        if not arguments.results and not torch.cuda.is_available():
            progress("there is no GPU here that torch can use")
            return 1
        status, gpu_results = command.run(arguments, cases, backends, arguments.device, progress)
        return max(status, keep_history(arguments, gpu_results["machine"], gpu_results["times"]))
    if "inductor" in backends and (why := inductor_is_missing()):
        progress(f"Inductor is left out: {why}")
        backends.remove("inductor")
    if arguments.compile:
        kind, measure = "compile", run_compile
    else:
        kind, measure = ("memory", run_memory) if arguments.memory else ("times", run_times)
    # Dynamo would break the graph at nn.LSTM, and nobody would compile what is inside.
    with torch._dynamo.config.patch(allow_rnn=True):
        results = measure(arguments, cases, backends)
    about = machine.describe(torch.get_num_threads())
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": about, kind: results}, indent=1) + "\n")
        progress(f"wrote {arguments.json}")
    status = 1 if any(map(has_failure, results.values())) else 0
    return max(status, keep_history(arguments, about, results))


def keep_history(arguments: argparse.Namespace, about: dict[str, Any], results: dict[str, Any]) -> int:
    """Keeps a run's ratios and draws them, where the arguments ask for it. 1 where --check fails."""
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


def has_failure(result: dict[str, Any]) -> bool:
    """Whether a backend failed in a case: listed under "failed" beside times, or with its own "error"."""
    return bool(result.get("failed")) or any("error" in part for part in result.values() if isinstance(part, dict))


if __name__ == "__main__":
    sys.exit(main())
