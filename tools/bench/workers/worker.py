"""Measures one case in its own process: `python -m cuesta.tools.bench.workers.worker JOB`.

JOB is JSON: what ("times", "compile", "kernels" or "memory"), case, contenders, device, rounds, output, caches, threads
and turn; rounds and threads may be null, for what is usual. `turn`, if not null, names a file to lock before anything
is timed. Each result is written to the file `output` at once, so that results survive if the process dies. Progress
goes to stdout. `caches` is the folder of every compiler's caches.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from cuesta.runtime.executable import ARENAS
from cuesta.tools.backend import register_cuesta
from cuesta.tools.bench.backends import failure, fallbacks
from cuesta.tools.bench.cases import Case, find_case
from cuesta.tools.bench.cases.workload import BACKWARD, FORWARD
from cuesta.tools.bench.contenders import Contender
from cuesta.tools.bench.machine import describe_gpu
from cuesta.tools.bench.measuring import memory
from cuesta.tools.bench.measuring.device import release, synchronize
from cuesta.tools.bench.measuring.kernels import PROFILED_CALLS, by_kernel, record, rows_of
from cuesta.tools.bench.measuring.on_gpu import WARM_CALLS, measure_case, reports, step_of
from cuesta.tools.bench.measuring.peaks import peaks_of
from cuesta.torch_private.configs import allow_recurrent_layers
from cuesta.torch_private.dynamo import compilation_time_metrics

WAITS, HAS_TURN = "waits for its turn", "time, as its turn has come"
"""What a worker with a `turn` prints before and after it has the lock."""

CACHES = {"CUESTA_CACHE_DIR": "cuesta", "TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}


@dataclass(frozen=True)
class Job:
    """The job of a worker process; the module's docstring describes the fields."""

    what: str
    case: str
    contenders: list[str]
    device: str
    rounds: int | None
    output: str
    caches: str
    threads: int | None = None
    turn: str | None = None

    def save(self, found: dict[str, Any]) -> None:
        """Replaces the contents of the file `output`."""
        part = Path(f"{self.output}.part")
        part.write_text(json.dumps(found, default=str))
        os.replace(part, self.output)


def progress(text: str) -> None:
    print(text, flush=True)


def times(job: Job, case: Case, where: torch.device) -> dict[str, Any]:
    # So that the first contender does not pay for loading Dynamo.
    torch.compile(lambda x: x + 1, backend="eager")(torch.zeros(1))
    contenders = [Contender.parse(c) for c in job.contenders]
    with contextlib.ExitStack() as turn:

        def begin() -> None:
            turn.enter_context(_turn(job))

        return measure_case(case, contenders, where, job.rounds, job.save, progress, begin)


@contextlib.contextmanager
def _turn(job: Job) -> Iterator[None]:
    """Waits until no other worker measures, where the job has a `turn`, and lets none do so in the context."""
    if not job.turn:
        yield
        return
    progress(WAITS)
    with open(job.turn) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        progress(HAS_TURN)
        yield


def compile_once(job: Job, case: Case, where: torch.device) -> dict[str, Any]:
    """Seconds from torch.compile to the end of the first call of the first contender, in a process that has compiled
    nothing before, and the times that torch and cuesta report of their stages. Then calls the other contenders, for the
    caches of a later measurement, which reports their failures."""
    contender, *others = map(Contender.parse, job.contenders)
    progress("build")
    workload = case.make(where).workload()
    with torch.set_grad_enabled(bool(workload.parameters)):
        # Eager first: one-time initialisation of torch and its libraries is not compile time.
        workload.compiled("eager")()
        synchronize(where)
        progress(f"compile, {contender}")
        began = time.perf_counter()
        call = step_of(contender, workload)
        named = time.perf_counter() - began
        first, *later = [_timed(call, where) for _ in range(3)]
        graphs = _compiled_graphs(contender)
        found = {
            "total": named + first,
            "torch.compile": named,
            "first_call": first,
            "later_calls": later,
            "dynamo_metrics": {name: sum(values) for name, values in compilation_time_metrics.items()},
            "graphs": graphs,
        }
        job.save(found)
        for other in others:
            try:
                step_of(other, workload)()
            except Exception as error:
                progress(f"{other} failed: {failure(error)['failed']}")
    return found


def peak_memory(job: Job, case: Case, where: torch.device) -> dict[str, Any]:
    """Peak bytes of a warm call on the CPU of the only contender, with what cuesta predicted."""
    (contender,) = map(Contender.parse, job.contenders)
    workload = case.make(where).workload()
    with torch.set_grad_enabled(bool(workload.parameters)):
        call = step_of(contender, workload)
        for _ in range(3):
            call()
        for parameter in workload.parameters:
            parameter.grad = None
        graphs = _compiled_graphs(contender)
        if graphs:
            # Frees the arena, so that the measured call allocates it and its bytes count.
            ARENAS.trim()
        use = memory.measure(call, (FORWARD, BACKWARD))
    result: dict[str, Any] = {"peak": use.peak, "phases": use.phases}
    return result | {"predicted": memory.predicted_peak(graphs)} if graphs else result


def _compiled_graphs(contender: Contender) -> list[dict[str, Any]]:
    """cuesta's report of its graphs, none of another contender. Raises RuntimeError if one runs op by op."""
    if contender.backend != "cuesta":
        return []
    if reasons := fallbacks():
        raise RuntimeError(f"not compiled, but run op by op in Python: {reasons[0]}")
    return reports()


def _timed(call: Callable[[], Any], where: torch.device) -> float:
    began = time.perf_counter()
    call()
    synchronize(where)
    return time.perf_counter() - began


def kernels(job: Job, case: Case, where: torch.device) -> dict[str, Any]:
    """{"contenders": {name: {"rows": …, "by_kernel": …}}}, longest time first; rows are averages over the calls."""
    progress("build")
    workload = case.make(where).workload()
    peaks = peaks_of(torch.cuda.get_device_name(where)) if where.type == "cuda" else None
    found: dict[str, Any] = {}
    with torch.set_grad_enabled(bool(workload.parameters)):
        for name in job.contenders:
            progress(f"profile, {name}")
            try:
                before = len(reports())
                call = step_of(Contender.parse(name), workload)
                for _ in range(WARM_CALLS):
                    call()
                both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
                with _turn(job):
                    launches = record(call, where, PROFILED_CALLS, both if where.type == "cuda" else both[:1])
            except Exception as error:
                found[name] = failure(error)
                progress(f"{name} failed: {found[name]['failed']}")
                release(where)
            else:
                rows = rows_of(launches, PROFILED_CALLS, reports()[before:])
                found[name] = {
                    "rows": [row.as_dict(peaks) for row in rows],
                    "by_kernel": [row.as_dict(None) for row in by_kernel(launches, PROFILED_CALLS)],
                }
            job.save({"contenders": found})
    return {"contenders": found}


def work(job: Job) -> None:
    """Does the job."""
    for variable, name in CACHES.items():
        os.environ[variable] = os.path.join(job.caches, name)
    if job.threads:
        torch.set_num_threads(job.threads)
    allow_recurrent_layers()
    where = torch.device(job.device)
    register_cuesta()
    measure = {"times": times, "compile": compile_once, "kernels": kernels, "memory": peak_memory}[job.what]
    try:
        found = measure(job, find_case(job.case), where)
    except Exception as error:
        # Failures before any backend runs: the case cannot be built, or its results in a wider dtype not computed.
        found = dict(failure(error))
    job.save(found | {"gpu": describe_gpu(where)})
    sys.stdout.flush()


if __name__ == "__main__":
    work(Job(**json.loads(sys.argv[1])))
    # Exits at once, without waiting for what compilers leave running, such as process pools.
    os._exit(0)
