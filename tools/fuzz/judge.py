"""Judges random programs in a separate process, because wrong code may crash the process or never end."""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Generic, TypeVar
from unittest import mock

import torch

from cuesta.tools.backend import register_cuesta
from cuesta.tools.fuzz.failure import Failure, Unjudged

T = TypeVar("T")

#: Time limit. The slowest text takes a few seconds, or a minute or two on a busy machine.
SECONDS = 300
#: Seconds in which an idle process must end by itself.
_END = 10
#: Kinds of the failures that end the judging process.
CRASHES, HANGS = "crashes", "hangs"
#: Held while a process starts: the child inherits environment variables that are set in this process for that moment.
_ENVIRONMENT = threading.Lock()
#: Matches CUDA's errors after a failed kernel assertion or a wrong access. All later calls of the process fail as well.
_CONTEXT_LOST = re.compile("CUDA error|CUDA_ERROR|device-side assert")


class Judge(Generic[T]):
    """Calls `check` on one text after another in a separate process. `check` must be picklable.

    Each text has `seconds`. torch uses `threads` threads, or its default for None. The process inherits this process's
    environment variables and those of `environment`."""

    def __init__(
        self,
        check: Callable[[Any], T],
        seconds: float = SECONDS,
        threads: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.check = check
        self.seconds = seconds
        self.threads = threads
        self.environment = environment or {}
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Judge[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __call__(self, text: Any) -> T | Failure:
        """The answer of `check`; a Failure if `check` crashes its process or does not end. Raises Unjudged if `check`
        raises. Starts a fresh process if the last one has ended or has lost its CUDA context."""
        if self._process is not None and not self._process.is_alive():
            self._stop()
        connection = self._connection or self._start()
        connection.send(text)
        if not connection.poll(self.seconds):
            self._stop()
            return Failure(HANGS, f"no answer after {self.seconds:g} s")
        try:
            answer, last = connection.recv()
        except (EOFError, ConnectionResetError):
            assert self._process is not None
            self._process.join()
            code = self._process.exitcode
            self._stop()
            return Failure(CRASHES, f"the process ended with {_exit(code)}")
        if last:
            self._end()
        if isinstance(answer, Exception):
            raise answer
        found: T = answer
        return found

    def _start(self) -> Connection:
        # Not forked: torch's threads do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.check, theirs, self.threads), daemon=True)
        with _ENVIRONMENT, mock.patch.dict(os.environ, self.environment):
            self._process.start()
        theirs.close()
        return self._connection

    def _end(self) -> None:
        """Lets the process end by itself, so that it removes its system-wide resources."""
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.join(_END)
        self._stop()

    def _stop(self) -> None:
        if self._process is not None and self._connection is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
        self._process = self._connection = None


def _exit(code: int | None) -> str:
    return signal.Signals(-code).name if code is not None and code < 0 else str(code)


def _serve(check: Callable[[str], Any], connection: Connection, threads: int | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends this one
    register_cuesta()
    if threads is not None:
        torch.set_num_threads(threads)
    last = False
    while not last:
        try:
            text = connection.recv()
        except EOFError:
            return
        try:
            answer = check(text)
        except Unjudged as problem:
            answer = problem
        except Exception as problem:  # the text itself is at fault; the parent raises this
            answer = Unjudged(f"{type(problem).__name__}: {problem}")
        last = _CONTEXT_LOST.search(str(answer)) is not None
        connection.send((answer, last))
