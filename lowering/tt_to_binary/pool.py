"""Runs worker processes, and compiles kernels in them even if a worker dies or hangs.

A worker is a plain `python -c …` with pipes: multiprocessing would import the user's main module again. A worker ends
when its stdin is closed, so it ends with this process, however this process ends. Workers stay for the next kernels;
`worker.py` says how long.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import Any

from cuesta.errors import CompileError, KernelRefused, OutOfResources
from cuesta.lowering.tt_to_binary.compile import diagnostic
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText, pack, receive

_MOST_WORKERS = 32
_EARLY_WORKERS = 8
"""What `warm_up` starts before anyone knows how many kernels there will be: each holds a hundred megabytes."""
_TIMEOUT = 120.0
"""Seconds that a kernel may take."""

_SERVE = "from cuesta.lowering.tt_to_binary.worker import serve; serve()"


class _Lost(Exception):
    """A worker gave no answer. The text says how the worker ended; `by_itself` is set if it was only idle too long."""

    def __init__(self, text: str, by_itself: bool = False) -> None:
        super().__init__(text)
        self.by_itself = by_itself


class Worker:
    """One worker process, as its parent sees it. It answers one request at a time."""

    def __init__(self, command: list[str], environment: dict[str, str] | None = None) -> None:
        """Starts the process and does not wait for it. Raises CompileError where it cannot be started."""
        self._log = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        # A worker truncates its log for each kernel: without O_APPEND, the next write would leave a hole before it.
        fcntl.fcntl(self._log, fcntl.F_SETFL, fcntl.fcntl(self._log, fcntl.F_GETFL) | os.O_APPEND)
        try:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                env=environment,
                bufsize=0,
            )
        except OSError as error:
            self._log.close()
            raise CompileError(f"cannot start a process that runs Triton: {command[0]}: {error.strerror}") from None

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: bytes, timeout: float) -> tuple[dict[str, Any], bytes]:
        """The worker's answer. Raises _Lost where the worker died or took longer than `timeout` seconds."""
        assert self.process.stdin is not None and self.process.stdout is not None  # PIPE above
        hung = threading.Event()
        timer = threading.Timer(timeout, self._end_hung, [hung])
        timer.daemon = True
        timer.start()
        try:
            view = memoryview(request)
            while view:
                view = view[self.process.stdin.write(view) :]
            answer = receive(self.process.stdout.read)
        except BrokenPipeError:
            answer = None
        finally:
            timer.cancel()
        if answer is None:
            raise self._lost(hung.is_set(), timeout)
        return answer

    def end(self) -> None:
        """Kills the process, and closes its pipes and its log."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self._log):
            if pipe is not None:
                pipe.close()

    def _end_hung(self, hung: threading.Event) -> None:
        hung.set()
        self.process.kill()

    def _lost(self, hung: bool, timeout: float) -> _Lost:
        code = self.process.wait()
        if hung:
            return _Lost(f"compiling took longer than {timeout:.0f} s")
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        said = os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode(errors="replace")
        return _Lost(f"the process ended {how}: {diagnostic(said, 'it said nothing')}", by_itself=code == 0)


class Pool:
    """At most `size` workers; a worker is started if none is idle. Threads may share a pool."""

    def __init__(self, python: str | None = None, size: int | None = None, timeout: float = _TIMEOUT) -> None:
        """`python` is the interpreter that has Triton, by default this one; `timeout` is in seconds for a kernel."""
        self.size = size or min(_MOST_WORKERS, len(os.sched_getaffinity(0)))
        self.command = _command(python)
        self._timeout = timeout
        self._idle: deque[Worker] = deque()
        self._busy: set[Worker] = set()
        self._changed = threading.Condition()
        self._ended = False

    def warm_up(self, count: int | None = None) -> None:
        """Starts workers up to `count`, but for no more than the pool's size, without waiting for them."""
        with self._changed:
            for _ in range(min(count or _EARLY_WORKERS, self.size) - len(self._idle) - len(self._busy)):
                self._idle.append(Worker(self.command))

    def compile(self, kernel: KernelText, target: str, keep_assembly: bool) -> KernelBinary:
        """The kernel's binary. A worker that dies or hangs while it compiles is replaced once.

        Raises KernelRefused if Triton fails on the kernel, or if the second worker is lost as well.
        """
        head = {
            "name": kernel.name,
            "warps": kernel.warps,
            "stages": kernel.stages,
            "target": target,
            "keep_assembly": keep_assembly,
        }
        request = pack(head, kernel.text.encode())
        losses: list[str] = []
        idled = False
        while len(losses) < 2:
            worker = self._borrow()
            try:
                answer, body = worker.ask(request, self._timeout)
            except _Lost as lost:
                if lost.by_itself and not idled:
                    idled = True
                else:
                    losses.append(str(lost))
                self._give_back(worker)
                continue
            except BaseException:  # the worker may still compute an answer that nobody waits for
                worker.process.kill()
                self._give_back(worker)
                raise
            self._give_back(worker)
            return _read_answer(answer, body)
        raise KernelRefused(f"Triton fails on kernel {kernel.name} for target {target}, twice: {losses[1]}")

    def end(self) -> None:
        """Kills all workers; threads that wait for a worker get a CompileError. The pool cannot be used afterwards."""
        with self._changed:
            self._ended = True
            while self._idle:
                self._idle.pop().end()
            for worker in self._busy:
                worker.process.kill()
            self._changed.notify_all()

    def _borrow(self) -> Worker:
        with self._changed:
            while True:
                if self._ended:
                    raise CompileError("the processes that run Triton have been stopped")
                while self._idle:
                    worker = self._idle.popleft()
                    if worker.alive:
                        self._busy.add(worker)
                        return worker
                    worker.end()
                if len(self._busy) < self.size:
                    worker = Worker(self.command)
                    self._busy.add(worker)
                    return worker
                self._changed.wait()

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._busy.remove(worker)
            if worker.alive and not self._ended:
                self._idle.append(worker)
            else:
                worker.end()
            self._changed.notify()


def _command(python: str | None) -> list[str]:
    """The command that starts a worker."""
    if python is not None:
        # Another environment: its own modules come first, and it needs only cuesta of ours.
        return [python, "-P", "-c", f"import sys; sys.path.append({str(_root())!r}); {_SERVE}"]
    if not sys.executable:
        raise CompileError(
            "cuesta runs Triton in processes of its own, which sys.executable must start; sys.executable is empty"
        )
    return worker_command(_SERVE)


def worker_command(serve: str) -> list[str]:
    """The command that runs `serve` in this Python, with this process's paths. -P: no module is imported from the
    current folder just because it is the current one."""
    path = [entry or os.getcwd() for entry in sys.path]
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {path!r}; {serve}"]


def _root() -> Path:
    """The folder that cuesta is imported from."""
    return Path(__file__).absolute().parents[3]


def _read_answer(answer: dict[str, Any], body: bytes) -> KernelBinary:
    if answer["kind"] == "resources":
        raise OutOfResources(*answer["arguments"])
    if answer["kind"] == "refused":
        raise KernelRefused(*answer["arguments"])
    if answer["kind"] == "failed":
        raise CompileError(*answer["arguments"])
    return KernelBinary.from_bytes(body)
