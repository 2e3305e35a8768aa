"""Compiles in another process while this one goes on: one worker, and a thread that waits for its answers.

MLIR's passes hold the GIL while they run, so compiling in a thread would stop all other threads. The worker
(worker.py) starts when it is first needed and ends with this process. Nothing here keeps a process from ending. A
forked child starts afresh: it does not get the answers that its parent waited for.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cuesta.errors import CompileError, CuestaError
from cuesta.lowering.tt_to_binary.pool import Worker
from cuesta.lowering.tt_to_binary.processes import Child, worker_command

#: Seconds that a program may take, kernels of a GPU included.
TIMEOUT = 1800.0

#: The worker has this process's priority: with a lower one it got a second of 50 where six other processes kept two
#: cores busy.
_SERVE = "from cuesta.driver.background.worker import serve; serve()"

Answer = tuple[dict[str, Any], bytes]
#: Starts the worker process.
Start = Callable[[], Worker]


@dataclass
class Job:
    """A request, and the callbacks for its outcome."""

    request: bytes
    #: called with the answer, in the service's thread; an exception that it raises counts as failure
    finish: Callable[[Answer], None]
    #: called with the reason of a failure
    fail: Callable[[str], None]
    over: threading.Event = field(default_factory=threading.Event)
    _taken: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> bool:
        """Whether the caller is the first to take the job."""
        return self._taken.acquire(blocking=False)

    def withdraw(self) -> bool:
        """Takes the job back. False if it has begun."""
        is_waiting = self.take()
        if is_waiting:
            self.over.set()
        return is_waiting


class Service:
    """Sends jobs to the worker one after another."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._worker: Worker | None = None
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._pending: list[Job] = []
        self._ended = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def warm_up(self) -> None:
        """Starts the worker, which takes seconds to be ready, and does not wait for it. Raises CompileError where no
        process can be started."""
        with self._lock:
            if self._worker is None:
                self._worker = self._start()
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="cuesta background", daemon=True)
                self._thread.start()

    def submit(self, job: Job) -> None:
        """Returns at once. Raises what `warm_up` does."""
        self.warm_up()
        self._pending = [known for known in self._pending if not known.over.is_set()] + [job]
        self._jobs.put(job)

    def dismiss(self) -> None:
        """Ends a worker that was started early, and that nobody has asked for anything."""
        with self._lock:
            if self._worker is not None and not self._pending:
                self._worker.end()
                self._worker = None

    def wait(self, timeout: float | None) -> bool:
        """Waits up to `timeout` seconds for each job; returns whether all are over."""
        return all(job.over.wait(timeout) for job in list(self._pending))

    def abandon(self) -> None:
        """Fails all jobs in a forked child, which has no thread and no worker of its own."""
        for job in self._pending:
            over, job.over = job.over, threading.Event()
            job.over.set()
            if not over.is_set():
                job.fail("this process was forked while its parent compiled")

    def end(self) -> None:
        """Kills the worker and waits for the thread, which then ends."""
        with self._lock:
            self._ended = True
            if self._worker is not None:
                self._worker.process.kill()
                self._worker.process.wait()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None and not self._ended:
            if not job.take():
                continue
            try:
                job.finish(self._ask(job.request))
            except Exception as error:  # whatever fails, the caller goes on without the program
                if not self._ended:
                    job.fail(str(error) if isinstance(error, CuestaError) else f"{type(error).__name__}: {error}")
            finally:
                job.over.set()
                # A finished job in `_pending` must not keep its graph alive.
                job.finish, job.fail, job.request = _nothing, _nothing, b""

    def _ask(self, request: bytes) -> Answer:
        """The worker's answer. A worker that has ended by itself after being idle is replaced."""
        with self._lock:
            if self._ended:
                raise CompileError("this process is exiting")
            if self._worker is None or not self._worker.alive:
                self._worker = self._start()
            worker = self._worker
        return worker.ask(request, TIMEOUT)


def _nothing(_: Any) -> None:
    """Replaces the callbacks of a job that is over."""


def _start_worker() -> Worker:
    return Worker(Child(worker_command(_SERVE)))


_SERVICE = Service(_start_worker)


def running_service() -> Service:
    """The service of this process."""
    return _SERVICE


def wait_for_tiers(timeout: float | None = None) -> bool:
    """Waits until no program of `options={"tiered": True}` is being compiled in the background.

    `timeout` is in seconds for each program; returns False if it was not enough. Programs that failed count as
    finished: the report and the log say so.
    """
    return _SERVICE.wait(timeout)


def _in_child() -> None:
    global _SERVICE
    parents, _SERVICE = _SERVICE, Service(_start_worker)
    parents.abandon()


os.register_at_fork(after_in_child=_in_child)
atexit.register(lambda: _SERVICE.end())
