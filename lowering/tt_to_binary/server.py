"""Runs the server of a pool: a process that imports Triton once, and forks a worker for each that its parent wants.

    parent ── Server.fork ──→ server ── fork ──→ worker (worker.py)
       │ requests, replies                         │
       └───────────────── pipes ───────────────────┘

An import takes up to a second, and a hundred megabytes; a fork takes a few milliseconds, and shares that memory. The
server has one thread when it forks, since importing Triton starts none (test_server.py checks that): a worker never
finds a lock that another thread held.

The server's stdin is a socket. A message there asks for a worker and hands over, as descriptors, the worker's stdin,
stdout and stderr, and a line: a socket on which the parent hears how the worker ended. The parent shuts its end to have
the worker killed. Workers die with their server, and the server ends with its parent.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from cuesta.lowering.tt_to_binary import worker

_LONGEST_IMPORT = 100
"""Seconds after which the system ends a server that still imports: before the parent gives up its first kernels."""

_TICK = 10.0
"""Seconds between looks at what sends the server no word: whether its parent has ended, or needs it no more."""

_PR_SET_PDEATHSIG = 1  # prctl.h
_LIBC = ctypes.CDLL(None)


@dataclass(frozen=True)
class _Forked:
    """A worker, as the server sees it."""

    pid: int
    #: the end of a pipe whose other end the worker alone holds: it is readable when the worker has ended
    ended: int
    #: readable when the parent has shut its end
    line: socket.socket

    def close(self) -> None:
        os.close(self.ended)
        self.line.close()


def serve() -> None:
    """Forks workers, which compile kernels, until there is nobody to ask for more."""
    if fork_workers(worker.import_triton, worker.IDLE):
        worker.serve()


def fork_workers(prepare: Callable[[], None], idle: float) -> bool:
    """Runs `prepare`, then forks a worker for each request. Returns True in each worker. Returns False in the server,
    once its parent has ended, or if it has no worker and was asked for none for `idle` seconds."""
    parent = os.getppid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignores it would leave no status of workers to read
    requests = socket.socket(fileno=os.dup(0))
    signal.alarm(_LONGEST_IMPORT)
    prepare()
    signal.alarm(0)
    gc.freeze()  # a collection in a worker would write to, and so copy, what the workers share
    workers: list[_Forked] = []
    asked = time.monotonic()
    # The socket ends with the parent, unless a child that the parent forked holds it open.
    while os.getppid() == parent and (workers or time.monotonic() < asked + idle):
        watched = [end for forked in workers for end in (forked.line, forked.ended)]
        ready = select.select([requests, *watched], [], [], _TICK)[0]
        _attend(workers, ready)
        if requests in ready:
            descriptors = socket.recv_fds(requests, 1, 4)[1]
            if not descriptors:
                return False
            asked = time.monotonic()
            if _fork(descriptors, workers):
                requests.close()
                return True
    return False


def _attend(workers: list[_Forked], ready: list[socket.socket | int]) -> None:
    """Kills the workers that the parent gave up, and tells it of those that have ended."""
    for forked in list(workers):
        if forked.line in ready:
            os.kill(forked.pid, signal.SIGKILL)  # nobody has waited for it, so no other process has its number
        if forked.ended in ready:
            _tell(forked.line, os.waitstatus_to_exitcode(os.waitpid(forked.pid, 0)[1]))
            forked.close()
            workers.remove(forked)


def _fork(descriptors: list[int], workers: list[_Forked]) -> bool:
    """Forks a worker that has `descriptors`, and adds it to `workers`. Returns whether this process is the worker."""
    *streams, line = descriptors
    ended, held = os.pipe()
    server, pid = os.getpid(), os.fork()
    workers.append(_Forked(pid, ended, socket.socket(fileno=line)))
    if pid == 0:
        _die_with(server)
        for other in workers:
            other.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
    else:
        os.close(held)  # the worker never does
    for stream in streams:
        os.close(stream)
    return pid == 0


def _die_with(server: int) -> None:
    """Has the system kill this process when the server ends, even while it compiles."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:  # it ended before
        os._exit(1)


def _tell(line: socket.socket, status: int) -> None:
    with contextlib.suppress(OSError):  # a parent that gave the worker up may not listen
        line.send(str(status).encode())
