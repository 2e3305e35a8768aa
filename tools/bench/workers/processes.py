"""Runs each case in its own process with a time limit, and keeps its results however the process ends.

Most processes are forked from a server that has loaded torch and cuesta and has not touched a device, because loading
takes as long as a small case. Compile times, and memory on a CPU, are measured in a fresh interpreter.
"""

from __future__ import annotations

import compileall
import contextlib
import functools
import itertools
import json
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import cuesta
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.workers.worker import HAS_TURN, WAITS, Job, work
from cuesta.torch_private.devices import is_in_bad_fork

WORKER = "cuesta.tools.bench.workers.worker"
LOADED = (
    WORKER,
    "cuesta.driver.backend",
    "cuesta.driver.lower",
    "transformers.modeling_utils",
    "torchvision.models",
    "timm",
)
"""Modules that take long to load. Those that are not installed are skipped."""

Progress = Callable[[str], None]


def run_job(
    what: str,
    case: str,
    contenders: Sequence[str],
    device: str,
    rounds: int | None,
    limit: float | None,
    progress: Progress,
    cache: Path | None = None,
    threads: int | None = None,
    turn: Path | None = None,
) -> dict[str, Any]:
    """The worker's results, with "failed" if it ended with an error or ran for more than `limit` seconds, if given.

    `cache` is the folder of every compiler's caches; by default an empty one. `turn` is a file that the worker locks
    before it times anything: the limit is for what comes before and for what comes after, and not for the waiting.
    """
    began = time.perf_counter()
    with _folder() as folder:
        output, errors = folder / "found.json", folder / "stderr"
        job = Job(
            what,
            case,
            list(contenders),
            device,
            rounds,
            str(output),
            str(cache or folder),
            threads,
            str(turn) if turn else None,
        )
        start = fresh if what in ("compile", "memory") else forked
        with start(job, errors) as (worker, lines):
            status = _follow(worker, lines, limit, lambda line: progress(f"{case}: {_elapsed(began)}: {line}"))
        found: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {}
        if status != 0:
            found["stderr"] = errors.read_text(errors="replace")[-4000:] if errors.exists() else ""
            found["failed"] = _failure(status, limit, found["stderr"])
    if "failed" in found:
        progress(f"{case}: failed: {found['failed']}")
    return found


def _elapsed(began: float) -> str:
    return f"{time.perf_counter() - began:.1f} s"


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    # Children of a killed process may still write to the folder during its removal.
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


class Worker:
    """A worker process, the leader of its own process group."""

    def __init__(self, pid: int, wait: Callable[[float | None], int | None]) -> None:
        self.pid = pid
        self.wait = wait
        """Waits up to so many seconds. The exit status, negative for a signal, or None if the process still runs."""


Started = tuple[Worker, IO[str]]


def command_of(job: Job) -> list[str]:
    """The command that does a job in its own interpreter."""
    return [sys.executable, "-m", WORKER, json.dumps(asdict(job))]


@functools.cache
def compile_sources() -> None:
    """Compiles changed sources to bytecode, as pip does for installed packages. In a checkout that keeps no bytecode
    (PYTHONDONTWRITEBYTECODE), compiling them would take 0.3 s in every process."""
    package = Path(cuesta.__file__).parent
    for folder in (package, *(path for path in package.iterdir() if path.is_dir())):
        compileall.compile_dir(folder, quiet=1)


@contextlib.contextmanager
def fresh(job: Job, errors: Path) -> Iterator[Started]:
    """A worker in a new interpreter, and the lines that it prints."""
    compile_sources()
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            command_of(job),
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )

    def wait(seconds: float | None) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        return None

    assert process.stdout is not None
    with process.stdout as lines:
        yield Worker(process.pid, wait), lines


@contextlib.contextmanager
def forked(job: Job, errors: Path) -> Iterator[Started]:
    """A worker forked from the server, and the lines that it prints."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LOADED))
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(job, writing, str(errors)))
    process.start()
    writing.close()

    def wait(seconds: float | None) -> int | None:
        process.join(seconds)
        return process.exitcode

    assert process.pid is not None
    with open(os.dup(reading.fileno()), errors="replace") as lines:
        reading.close()
        yield Worker(process.pid, wait), lines


def _child(job: Job, writing: Connection, errors: str) -> None:
    """Runs in the child: starts its own process group, redirects its output to the parent, and does the job."""
    os.setsid()
    os.dup2(writing.fileno(), 1)
    with open(errors, "w") as stderr:
        os.dup2(stderr.fileno(), 2)
    if is_in_bad_fork():
        # A library touched the GPU while the server loaded it. Only a new interpreter can use the GPU then.
        os.execv(sys.executable, command_of(job))
    work(job)


class _Clock:
    """The seconds that a worker has left. It stands while the worker waits for its turn, and then begins again."""

    LOOK = 0.5
    """Seconds until a standing clock is looked at again."""

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.end = self._end()

    def _end(self) -> float | None:
        return None if self.limit is None else time.monotonic() + self.limit

    def note(self, line: str) -> None:
        if line == WAITS:
            self.end = math.inf
        elif line == HAS_TURN:
            self.end = self._end()

    def left(self) -> float | None:
        return None if self.end is None else max(0.0, min(self.LOOK, self.end - time.monotonic()))

    def is_over(self) -> bool:
        return self.end is not None and time.monotonic() >= self.end


def _follow(worker: Worker, lines: IO[str], limit: float | None, tell: Progress) -> int | None:
    """Passes on the worker's lines until it ends. Returns its exit status, or None if it exceeded `limit` seconds."""

    clock = _Clock(limit)

    def read() -> None:
        for line in lines:
            clock.note(line.rstrip())
            tell(line.rstrip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while (status := worker.wait(clock.left())) is None and not clock.is_over():
        pass
    # Ends the processes that the compilers started, too.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(worker.pid, signal.SIGKILL)
    if status is None:
        # The worker may not have started its process group yet.
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker.pid, signal.SIGKILL)
        worker.wait(None)
    reader.join(5)
    return status


def _failure(status: int | None, limit: float | None, stderr: str) -> str:
    if status is None:
        return f"not done after {limit:g} s"
    why = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    lines = stderr.strip().splitlines()
    return f"{why}; {lines[-1][:200]}" if lines else why


def prepare(
    cases: Sequence[str],
    contenders: Sequence[str],
    device: str,
    limit: float,
    processes: int,
    cache: Path,
    progress: Progress,
) -> None:
    """Fills `cache` for the measurements: compiles every case with each contender that compiles, `processes` at a time.
    A failure here is not reported in detail, because the measurement fails in the same way and reports it."""

    def compile_one(case: str, contender: str) -> None:
        found = run_job("compile", case, [contender], device, None, limit, lambda _: None, cache)
        progress(f"{case}: {contender}: " + (f"{found['total']:.1f} s" if "total" in found else "failed"))

    compiling = [c for c in contenders if Contender.parse(c).compiles]
    with ThreadPoolExecutor(processes) as pool:
        # The modes of one backend share most of their code, so they are compiled one after another.
        for contender in compiling:
            list(pool.map(compile_one, cases, itertools.repeat(contender)))


Samples = dict[str, dict[str, list[dict[str, Any]]]]
"""Contender → "cold" or "warm" → a worker's result a round."""


def compile_rounds(
    case: str,
    contenders: Sequence[str],
    device: str,
    limit: float | None,
    rounds: int,
    progress: Progress,
    threads: int | None = None,
) -> tuple[Samples, dict[str, str]]:
    """The samples of the contenders that compile, and why the others fail. Each round begins with a different one.

    `aot_eager` has no cache that could be warm.
    """
    found: Samples = {name: {} for name in contenders}
    failed: dict[str, str] = {}
    for index in range(rounds):
        turn = index % len(contenders)
        for name in [*contenders[turn:], *contenders[:turn]]:
            if name in failed:
                continue
            with _folder() as cache:
                for kind in ("cold",) if name == "aot_eager" else ("cold", "warm"):
                    tell = _prefixed(progress, f"{kind}, round {index + 1} of {rounds}")
                    sample = run_job("compile", case, [name], device, None, limit, tell, cache, threads)
                    if "failed" in sample:
                        failed[name] = sample["failed"]
                        break
                    found[name].setdefault(kind, []).append(sample)
    return found, failed


def compile_case(
    case: str, contenders: Sequence[str], device: str, limit: float, rounds: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Contender → {"cold": …, "warm": …}, a worker's result each, with {"samples": {"cold": totals, …}} in seconds; or
    {"failed": text}. Of several rounds, the one with the (lower) median total counts.

    `aot_eager` is measured too: the time of Dynamo, of AOTAutograd, and of running op by op once.
    """
    found, failed = compile_rounds(case, ["aot_eager", *contenders], device, limit, rounds, progress)
    results: dict[str, dict[str, Any]] = {}
    for name, kinds in found.items():
        results[name] = {"failed": failed[name]} if name in failed else {"samples": {}}
        for kind, samples in kinds.items():
            in_order = sorted(samples, key=lambda sample: sample["total"])
            results[name][kind] = middle = in_order[(len(in_order) - 1) // 2]
            results[name]["gpu"] = middle.get("gpu")
            results[name].setdefault("samples", {})[kind] = [sample["total"] for sample in samples]
    return results


def compile_on_cpu(
    case: str, contenders: Sequence[str], threads: int, rounds: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Contender → {"cold": [...], "warm": [...]}, with one worker result a round, or {"error": text}."""
    found, failed = compile_rounds(case, contenders, "cpu", None, rounds, progress, threads)
    return {name: {"error": failed[name]} if name in failed else kinds for name, kinds in found.items()}


def memory_peaks(case: str, contenders: Sequence[str], threads: int, progress: Progress) -> dict[str, dict[str, Any]]:
    """Contender → a worker's result on the CPU, or {"error": text}."""
    results: dict[str, dict[str, Any]] = {}
    with _folder() as cache:
        for name in contenders:
            found = run_job("memory", case, [name], "cpu", None, None, _prefixed(progress, name), cache, threads)
            results[name] = {"error": found["failed"]} if "failed" in found else found
    return results


def _prefixed(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(f"{prefix}: {text}")
