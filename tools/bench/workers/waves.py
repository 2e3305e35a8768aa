"""Measures several cases side by side: they compile at the same time, and are timed one after the other.

First each backend compiles each case in a fresh process with empty caches, one process for every four cores at a time:
its cold compile time. A case's backends follow one another, so that the others slow each of them down alike. Then a
process for each case loads what was compiled, and compares the results with eager's. When all have done so, they take
turns to time, while the others wait. Without cold compile times, the second process compiles as well: a wave takes half
the time.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from functools import partial
from pathlib import Path
from typing import Any

from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.workers.processes import Progress, run_job
from cuesta.tools.bench.workers.worker import CACHES, WAITS

SUITE_ROUNDS = 7
_REPORTED = ("name", "fallback", "cuda_graph")
"""What the results of a suite keep of cuesta's report of a graph."""


def measure_wave(
    cases: Sequence[str],
    contenders: Sequence[str],
    device: str,
    rounds: int | None,
    limit: float,
    progress: Progress,
    cold: bool = True,
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case, as soon as it is timed, with a worker's results of times, with "cold": what `compile_cold` says of
    it, empty without `cold`, and "processes", how many cases the wave has. A case that lacked memory beside the others
    comes a second time, measured alone."""
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        compiled = compile_cold(cases, contenders, device, limit, folder, progress) if cold else {c: {} for c in cases}
        places = {case: _linked(folder, case, compiled[case]) for case in cases}
        measured = partial(_in_turns, contenders, device, rounds or SUITE_ROUNDS, limit, folder / "turn", progress)
        lacking: list[str] = []
        for case, result in measured(places):
            if len(cases) > 1 and _lacked_memory(result):
                lacking.append(case)
            yield case, _completed(result, compiled[case], len(cases))
        for case in lacking:
            progress(f"{case}: again, alone")
            for _, result in measured({case: places[case]}):
                yield case, _completed(result, compiled[case], len(cases))


def profile_side_by_side(
    cases: Sequence[str], contenders: Sequence[str], device: str, limit: float, together: int, progress: Progress
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case, as soon as it is done, with a worker's results of kernels; `together` of them run at a time. While one
    is profiled, the others may compile and make their first calls, whose kernels then share the GPU with it."""
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True) as name:
        turn = Path(name) / "turn"
        turn.touch()
        with ThreadPoolExecutor(together) as pool:
            jobs = {
                pool.submit(run_job, "kernels", case, contenders, device, None, limit, progress, turn=turn): case
                for case in cases
            }
            for job in as_completed(jobs):
                yield jobs[job], job.result()


def _completed(result: dict[str, Any], cold: dict[str, Any], processes: int) -> dict[str, Any]:
    """The worker's result with what the wave knows of the case."""
    for part in result.get("contenders", {}).values():
        if "graphs" in part:
            part["graphs"] = [{key: graph[key] for key in _REPORTED} for graph in part["graphs"]]
    return result | {"cold": cold, "processes": processes}


def compile_cold(
    cases: Sequence[str], contenders: Sequence[str], device: str, limit: float, folder: Path, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Case → the first contender of a backend → {"total": seconds} or {"failed": text}, and "processes", how many ran
    at a time. Each process has caches of its own, which the backend's other contenders then fill too."""
    backends: dict[str, list[str]] = {}
    for contender in contenders:
        if Contender.parse(contender).compiles:
            backends.setdefault(Contender.parse(contender).backend, []).append(contender)
    # Inductor starts compile processes of its own. If a worker ran for each core, a small case would wait for the cores
    # that larger cases keep busy, and the backend that comes later would look slow.
    together = max(1, (os.cpu_count() or 1) // 4)

    def compile_one(job: tuple[str, str]) -> dict[str, Any]:
        backend, case = job
        cache = _cache(folder, case, backend)
        found = run_job("compile", case, backends[backend], device, None, limit, lambda _: None, cache)
        # A failure after the first contender's result leaves the result.
        kept: dict[str, Any] = {key: found[key] for key in ("total", "failed", "gpu") if key in found}
        kept["processes"] = together
        progress(f"{case}: {backend}, cold: " + (f"{kept['total']:.1f} s" if "total" in kept else kept["failed"]))
        return kept

    jobs = [(backend, case) for case in cases for backend in backends]
    with ThreadPoolExecutor(together) as pool:
        found = dict(zip(jobs, pool.map(compile_one, jobs), strict=True))
    alone = [job for job, result in found.items() if _lacked_memory(result)]
    found |= {job: compile_one(job) for job in alone}
    return {case: {backends[backend][0]: found[backend, case] for backend in backends} for case in cases}


def _lacked_memory(result: Mapping[str, Any]) -> bool:
    """Whether the case, or a contender in it, failed for want of the GPU's memory, which a wave's cases share."""
    parts = [result, *result.get("contenders", {}).values()]
    return any("OutOfMemory" in part.get("failed", "") for part in parts)


def _cache(folder: Path, case: str, backend: str) -> Path:
    cache = folder / case.replace("/", "_") / backend
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def _linked(folder: Path, case: str, backends: Mapping[str, Any]) -> Path:
    """A folder in which the caches of all backends are found: each backend's own, and Inductor's of Triton."""
    together = _cache(folder, case, "all")
    names = [Contender.parse(contender).backend for contender in backends]
    for kind in CACHES.values():
        owner = kind if kind in names else "inductor"
        if owner in names:
            real = _cache(folder, case, owner) / kind
            real.mkdir(exist_ok=True)
            os.symlink(real, together / kind)
    return together


def _in_turns(
    contenders: Sequence[str],
    device: str,
    rounds: int,
    limit: float,
    turn: Path,
    progress: Progress,
    places: Mapping[str, Path],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case with its results of times, as soon as it is timed. All cases get ready at the same time; none is timed
    before all are ready."""
    ready = threading.Semaphore(0)

    def measure(case: str, cache: Path) -> dict[str, Any]:
        waits = False

        def tell(line: str) -> None:
            nonlocal waits
            progress(line)
            if line.endswith(WAITS):
                waits = True
                ready.release()

        try:
            return run_job("times", case, contenders, device, rounds, limit, tell, cache, turn=turn)
        finally:
            if not waits:
                ready.release()

    with ThreadPoolExecutor(len(places)) as pool:
        with _held(turn):
            cases = {pool.submit(measure, case, cache): case for case, cache in places.items()}
            for _ in places:
                ready.acquire()
        for result in as_completed(cases):
            yield cases[result], result.result()


@contextmanager
def _held(turn: Path) -> Iterator[None]:
    """Holds the lock of the file, which nobody else then gets."""
    with turn.open("w") as file:
        flock(file, LOCK_EX)
        yield
