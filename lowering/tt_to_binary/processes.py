"""Starts processes that answer requests, and says how they ended.

    Child(command)           starts a process, which then imports what it needs
    Server(command).fork()   has a server (server.py), which has imported it, fork a process

Either has pipes for requests and replies, and a log for what it prints. Commands are plain `python -c …`:
multiprocessing would import the user's main module again. A process ends when its pipe or socket is closed, so it ends
with this process, however this process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import tempfile
from typing import IO, Protocol

from cuesta.errors import CompileError


class Process(Protocol):
    """A process that answers requests, as its parent sees it."""

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None:
        """How the process ended: its status, or minus the signal's number. None while it runs."""

    def wait(self) -> int:
        """Waits for the end, and returns how the process ended."""

    def kill(self) -> None:
        """Does not wait for the end. Any thread may call it, at any time."""

    def said(self) -> str:
        """What the process has printed."""

    def close(self) -> None:
        """Closes this process's ends of the pipes."""


class Child(subprocess.Popen[bytes]):
    """A process that this one starts."""

    def __init__(self, command: list[str], stdin: int = subprocess.PIPE, stdout: int = subprocess.PIPE) -> None:
        """Does not wait for the process. Raises CompileError where it cannot be started."""
        self._log = _Log()
        try:
            super().__init__(command, stdin=stdin, stdout=stdout, stderr=self._log.fileno(), bufsize=0)
        except OSError as error:
            raise CompileError(f"cannot start a process that runs Triton: {command[0]}: {error.strerror}") from None

    def said(self) -> str:
        return self._log.text()

    def close(self) -> None:
        for pipe in (self.stdin, self.stdout):
            if pipe is not None:
                pipe.close()


class Server:
    """A process that forks others, and with which these die."""

    def __init__(self, command: list[str]) -> None:
        """Does not wait for the process. Raises CompileError where it cannot be started."""
        self._requests, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            self.process = Child(command, theirs.fileno(), subprocess.DEVNULL)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def fork(self) -> Forked:
        """Does not wait for the fork. If the server has ended, so has the process that is returned."""
        return Forked(self._requests, self.process)

    def end(self) -> None:
        """Kills the server, and so all that it has forked."""
        self.process.kill()
        self.process.wait()
        self._requests.close()


class Forked:
    """A process that a server forks."""

    def __init__(self, requests: socket.socket, server: Child) -> None:
        self._server = server
        self._log = _Log()
        self._status: int | None = None
        self._line, line = socket.socketpair()
        stdin, self.stdin = _pipe()
        self.stdout, stdout = _pipe()
        with stdin, stdout, line, contextlib.suppress(ConnectionError):  # `wait` says how the server ended
            socket.send_fds(requests, [b"\0"], [end.fileno() for end in (stdin, stdout, self._log, line)])

    def poll(self) -> int | None:
        with contextlib.suppress(BlockingIOError):
            return self._ended(socket.MSG_DONTWAIT)
        return None

    def wait(self) -> int:
        return self._ended()

    def kill(self) -> None:
        with contextlib.suppress(OSError):  # closed: the process has ended
            self._line.shutdown(socket.SHUT_WR)

    def said(self) -> str:
        return self._log.text() or self._server.said()

    def close(self) -> None:
        for end in (self.stdin, self.stdout, self._line):
            end.close()

    def _ended(self, flags: int = 0) -> int:
        """How the process ended: as the server says, or as the server itself did. `flags` are those of recv."""
        if self._status is None:
            status = self._line.recv(16, flags)
            self._status = int(status) if status else self._server.wait()
        return self._status


class _Log:
    """A file for what a process prints, closed when nobody has a use for it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        # A worker truncates its log for each kernel: without O_APPEND, the next write would leave a hole before it.
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | os.O_APPEND)

    def __del__(self) -> None:
        self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def text(self) -> str:
        return os.pread(self.fileno(), os.fstat(self.fileno()).st_size, 0).decode(errors="replace")


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """The end of a pipe that is read, and the one that is written."""
    read, write = os.pipe()
    return open(read, "rb", buffering=0), open(write, "wb", buffering=0)


def worker_command(serve: str) -> list[str]:
    """The command that runs `serve` in this Python, with this process's paths. -P: no module is imported from the
    current folder just because it is the current one."""
    path = [entry or os.getcwd() for entry in sys.path]
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {path!r}; {serve}"]
