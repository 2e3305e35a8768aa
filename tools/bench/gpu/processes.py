"""Starts a worker for each case, with a time limit, and gets what it found however it ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cuesta.tools.bench.gpu.worker import Job

WORKER = "cuesta.tools.bench.gpu.worker"

Progress = Callable[[str], None]


def run_job(
    what: str,
    case: str,
    contenders: Sequence[str],
    device: str,
    rounds: int | None,
    limit: float,
    progress: Progress,
    cache: Path | None = None,
) -> dict[str, Any]:
    """What the worker found. With "failed" where it did not come to its end: an error, or more than `limit` seconds.

    `cache` is the folder of every compiler's caches, an empty one where not given.
    """
    with tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True) as folder:
        output, errors = Path(folder, "found.json"), Path(folder, "stderr")
        job = Job(what, case, list(contenders), device, rounds, str(output))
        with errors.open("w") as stderr:
            worker = subprocess.Popen(
                [sys.executable, "-m", WORKER, json.dumps(asdict(job))],
                env=os.environ | _caches(cache or Path(folder)),
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                # A group of its own: what the compilers started ends with it.
                start_new_session=True,
            )
            why = _follow(worker, limit, lambda line: progress(f"{case}: {line}"))
        found: dict[str, Any] = json.loads(output.read_text()) if output.exists() else {}
        if why is not None:
            lines = errors.read_text(errors="replace").strip().splitlines()
            found["failed"] = f"{why}; {lines[-1][:200]}" if lines else why
    if "failed" in found:
        progress(f"{case}: failed: {found['failed']}")
    return found


def _caches(folder: Path) -> dict[str, str]:
    names = {"CUESTA_CACHE_DIR": "cuesta", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    return {variable: str(folder / name) for variable, name in names.items()}


def _follow(worker: subprocess.Popen[str], limit: float, tell: Progress) -> str | None:
    """Passes the worker's lines on until it ends; why it did not end well, or None."""

    def read() -> None:
        assert worker.stdout is not None
        for line in worker.stdout:
            tell(line.rstrip())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    why = None
    try:
        status = worker.wait(limit)
        if status != 0:
            why = f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
    except subprocess.TimeoutExpired:
        why = f"not done after {limit:g} s"
    finally:
        # What it started may have ended, too.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    reader.join(5)
    return why


def compile_case(
    case: str, contenders: Sequence[str], device: str, limit: float, progress: Progress
) -> dict[str, dict[str, Any]]:
    """For each contender {"cold": …, "warm": …}, a worker's result each, or {"failed": text}.

    `aot_eager` stands beside them: what Dynamo and AOTAutograd take, and running op by op once.
    """
    results: dict[str, dict[str, Any]] = {}
    for contender in ["aot_eager", *contenders]:
        with tempfile.TemporaryDirectory(prefix="cuesta-bench-", ignore_cleanup_errors=True) as cache:
            part: dict[str, Any] = {}
            for kind in ("cold",) if contender == "aot_eager" else ("cold", "warm"):
                found = run_job(
                    "compile", case, [contender], device, None, limit, _prefixed(progress, kind), Path(cache)
                )
                part["gpu"] = found.pop("gpu", None)
                if "failed" in found:
                    part["failed"] = found["failed"]
                    break
                part[kind] = found
            results[contender] = part
    return results


def _prefixed(progress: Progress, prefix: str) -> Progress:
    return lambda text: progress(f"{prefix}: {text}")
