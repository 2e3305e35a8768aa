"""Compiles kernels in worker processes, even if a worker dies or hangs.

A server process forks the workers (server.py); it is started with the first of them, and again if it has ended. Workers
stay for the next kernels; `worker.py` says how long.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from cuesta.errors import CompileError, KernelRefused, OutOfResources
from cuesta.lowering.tt_to_binary.compile import diagnostic
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, KernelText, pack, receive
from cuesta.lowering.tt_to_binary.processes import Process, Server, worker_command

_MOST_WORKERS = 32
_TIMEOUT = 120.0
"""Seconds that a kernel may take."""

_SERVE = "from cuesta.lowering.tt_to_binary.server import serve; serve()"


class _Lost(Exception):
    """A worker gave no answer. The text says how the worker ended; `by_itself` is set if it was only idle too long."""

    def __init__(self, text: str, by_itself: bool = False) -> None:
        super().__init__(text)
        self.by_itself = by_itself


class Worker:
    """One worker process, as its parent sees it. It answers one request at a time."""

    def __init__(self, process: Process) -> None:
        self.process = process

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
        """Kills the process, and closes its pipes."""
        self.process.kill()
        self.process.wait()
        self.process.close()

    def _end_hung(self, hung: threading.Event) -> None:
        hung.set()
        self.process.kill()

    def _lost(self, hung: bool, timeout: float) -> _Lost:
        code = self.process.wait()
        if hung:
            return _Lost(f"compiling took longer than {timeout:.0f} s")
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
        said = diagnostic(self.process.said(), "it said nothing")
        return _Lost(f"the process ended {how}: {said}", by_itself=code == 0)


class Pool:
    """At most `size` workers; a worker is started if none is idle. Threads may share a pool."""

    def __init__(self, python: str | None = None, size: int | None = None, timeout: float = _TIMEOUT) -> None:
        """`python` is the interpreter that has Triton, by default this one; `timeout` is in seconds for a kernel."""
        self.size = size or min(_MOST_WORKERS, len(os.sched_getaffinity(0)))
        self.command = _command(python)
        self._timeout = timeout
        self._server: Server | None = None
        self._idle: deque[Worker] = deque()
        self._busy: set[Worker] = set()
        self._changed = threading.Condition()
        self._ended = False

    def warm_up(self) -> None:
        """Starts the server, which takes long to be ready, and does not wait for it. Workers are then quickly there."""
        with self._changed:
            self._running_server()

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
                worker.end()
                self._give_back(worker)
                raise
            self._give_back(worker)
            return _read_answer(answer, body)
        raise KernelRefused(f"Triton fails on kernel {kernel.name} for target {target}, twice: {losses[1]}")

    def end(self) -> None:
        """Kills all workers; threads that wait for a worker get a CompileError. The pool cannot be used afterwards."""
        with self._changed:
            self._ended = True
            if self._server is not None:
                self._server.end()
            while self._idle:
                self._idle.pop().end()
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
                    worker = Worker(self._running_server().fork())
                    self._busy.add(worker)
                    return worker
                self._changed.wait()

    def _running_server(self) -> Server:
        if self._server is not None and not self._server.alive:
            self._server.end()
            self._server = None
        if self._server is None:
            self._server = Server(self.command)
        return self._server

    def _give_back(self, worker: Worker) -> None:
        with self._changed:
            self._busy.remove(worker)
            if worker.alive and not self._ended:
                self._idle.append(worker)
            else:
                worker.end()
            self._changed.notify()


def _command(python: str | None) -> list[str]:
    """The command that starts a server."""
    if python is not None:
        # Another environment: its own modules come first, and it needs only cuesta of ours.
        return [python, "-P", "-c", f"import sys; sys.path.append({str(_root())!r}); {_SERVE}"]
    if not sys.executable:
        raise CompileError(
            "cuesta runs Triton in processes of its own, which sys.executable must start; sys.executable is empty"
        )
    return worker_command(_SERVE)


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
