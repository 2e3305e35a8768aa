"""Starts worker processes that measure compile times with an empty and a filled cache, and peak memory."""

from __future__ import annotations

import compileall
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cuesta

WORKER = "cuesta.tools.bench.worker"


class WorkerFailed(Exception):
    """A backend failed in a worker, or the worker itself failed; the text says why."""


def run_worker(what: str, case: str, backend: str, threads: int, cache: Path) -> dict[str, Any]:
    """Runs a worker and returns the JSON that it printed. All caches of all compilers are under `cache`.

    Compiles cuesta's sources to bytecode before, as torch's are. Raises WorkerFailed.
    """
    _compile_sources()
    caches = {"CUESTA_CACHE_DIR": cache / "cuesta", "TORCHINDUCTOR_CACHE_DIR": cache / "inductor"}
    done = subprocess.run(
        [sys.executable, "-m", WORKER, what, case, backend, str(threads)],
        env=os.environ | {name: str(path) for name, path in caches.items()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise WorkerFailed(lines[-1] if lines else f"exit status {done.returncode}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if "error" in result:
        raise WorkerFailed(result["error"])
    return result


@functools.cache
def _compile_sources() -> None:
    """Compiles changed sources to bytecode, as pip does for installed packages. In a checkout that keeps no bytecode
    (PYTHONDONTWRITEBYTECODE), compiling them would take 0.3 s in every process."""
    package = Path(cuesta.__file__).parent
    for folder in (package, *(path for path in package.iterdir() if path.is_dir())):
        compileall.compile_dir(folder, quiet=1)


def compile_rounds(
    case: str, backends: Sequence[str], threads: int, rounds: int, progress: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Backend → {"cold": [...], "warm": [...]}, with one worker result a round, or {"error": text}.

    The backends take turns, and each round begins with a different backend.
    """
    results: dict[str, dict[str, Any]] = {backend: {"cold": [], "warm": []} for backend in backends}
    for index in range(rounds):
        turn = index % len(backends)
        for backend in [*backends[turn:], *backends[:turn]]:
            if "error" in results[backend]:
                continue
            with tempfile.TemporaryDirectory(prefix="cuesta-bench-") as cache:
                for kind in ("cold", "warm"):
                    progress(f"{case}: compile, {kind}, {backend}, round {index + 1} of {rounds}")
                    try:
                        result = run_worker("compile", case, backend, threads, Path(cache))
                    except WorkerFailed as error:
                        progress(f"{case}: {backend} failed: {error}")
                        results[backend] = {"error": str(error)}
                        break
                    results[backend][kind].append(result)
    return results


def memory_peaks(
    case: str, backends: Sequence[str], threads: int, progress: Callable[[str], None]
) -> dict[str, dict[str, Any]]:
    """Backend → a worker's result, or {"error": text}."""
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-") as cache:
        for backend in backends:
            progress(f"{case}: memory, {backend}")
            try:
                results[backend] = run_worker("memory", case, backend, threads, Path(cache))
            except WorkerFailed as error:
                progress(f"{case}: {backend} failed: {error}")
                results[backend] = {"error": str(error)}
    return results
