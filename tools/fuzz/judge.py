"""Judges texts in a process of their own: wrong code may take it down, or never end."""

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

#: The slowest text takes a few seconds; on a machine that others use, a minute or two.
SECONDS = 300
#: What a process that has nothing to do may take to end.
_END = 10
#: Kinds of failures that take a process along.
CRASHES, HANGS = "crashes", "hangs"
#: This process's own variables are changed for the moment in which one is started, which takes them over.
_ENVIRONMENT = threading.Lock()
#: In what CUDA says after a kernel's assertion or a wrong access, of that call and of all that follow in the process.
_CONTEXT_LOST = re.compile("CUDA error|CUDA_ERROR|device-side assert")


class Judge(Generic[T]):
    """Calls `check`, a function of a module, on one text after another; gives it `seconds` for each, and torch so many
    threads, None for as many as it takes. The process has the variables of `environment` beside this one's."""

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
        """What `check` says; a Failure of its own where it takes its process down or does not end. Raises Unjudged
        where `check` raises. A process whose GPU is lost to it, or that has ended since, is followed by a fresh one."""
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
        # Not forked: torch's threads do not survive that.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(self.check, theirs, self.threads), daemon=True)
        with _ENVIRONMENT, mock.patch.dict(os.environ, self.environment):
            self._process.start()
        theirs.close()
        return self._connection

    def _end(self) -> None:
        """Has the process end by itself, which takes down what it made for the whole system."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asked ends it
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
        except Exception as problem:  # the text itself is at fault; told to whoever asked
            answer = Unjudged(f"{type(problem).__name__}: {problem}")
        last = _CONTEXT_LOST.search(str(answer)) is not None
        connection.send((answer, last))
