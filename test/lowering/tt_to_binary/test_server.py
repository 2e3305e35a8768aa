"""Servers and the workers that they fork: how they end, by themselves, by their parent or by others."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuesta.lowering.tt_to_binary.pool import Pool
from cuesta.lowering.tt_to_binary.processes import Server, worker_command

#: A server that prepares as a test says, and whose workers do what a test says.
FAKE = """
import os, sys, time
from cuesta.lowering.tt_to_binary import server
def prepare():
    {prepare}
server._TICK, server._LONGEST_IMPORT = 0.1, 1
if server.fork_workers(prepare, {idle}):
    {act}
"""

ECHO = "os.write(1, os.read(0, 4))"
HANG = "os.write(1, b'busy'); time.sleep(100)"

#: A parent whose server has a worker that works and one that waits for a request. It prints the number of a child that
#: may hold its pipes open, of the server and of the workers.
PARENT = """
import os, time
from pathlib import Path
from cuesta.lowering.tt_to_binary.processes import Server
server = Server({command!r})
busy, waits = server.fork(), server.fork()
for worker in busy, waits:
    worker.stdin.write(b"work")
    worker.stdout.read(4)
busy.stdin.write(b"work")
holder = {holder}
if holder == 0:
    time.sleep(100)
number = server.process.pid
print(holder, number, Path(f"/proc/{{number}}/task/{{number}}/children").read_text(), flush=True)
time.sleep(100)
"""


def fake_command(act: str, prepare: str = "pass", idle: float = 300.0) -> list[str]:
    return worker_command(FAKE.format(act=act, prepare=prepare, idle=idle))


@pytest.fixture
def start() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(act: str, prepare: str = "pass", idle: float = 300.0) -> Server:
        servers.append(Server(fake_command(act, prepare, idle)))
        return servers[-1]

    yield start
    for server in servers:
        server.end()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def runs(pid: int) -> bool:
    """Whether the process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for_end(pids: list[int]) -> None:
    while any(map(runs, pids)):  # pytest's limit ends it
        time.sleep(0.01)


def test_importing_triton_starts_no_thread() -> None:
    """A fork copies one thread alone: locks that others hold would stay locked in the worker."""
    pool = Pool(size=1)
    pool.warm_up()
    assert pool._server is not None
    worker, number = pool._server.fork(), pool._server.process.pid
    try:
        while not children(number):  # pytest's limit ends it
            time.sleep(0.01)
        assert len(os.listdir(f"/proc/{number}/task")) == 1
        assert "libtriton" in Path(f"/proc/{number}/maps").read_text()
    finally:
        pool.end()
        worker.close()


def test_a_worker_has_pipes_and_a_log_of_its_own(start: Callable[..., Server]) -> None:
    server = start(f"os.write(2, b'heard'); {ECHO}")
    first, second = server.fork(), server.fork()
    for worker, request in (second, b"two."), (first, b"one."):
        worker.stdin.write(request)
        assert worker.stdout.read(4) == request
        assert worker.wait() == 0
        assert worker.said() == "heard"
        worker.close()


@pytest.mark.parametrize(
    ("act", "status"), [("pass", 0), ("sys.exit(3)", 3), ("os.abort()", -signal.SIGABRT), ("1 / 0", 1)]
)
def test_how_a_worker_ended_is_reported(start: Callable[..., Server], act: str, status: int) -> None:
    worker = start(act).fork()
    assert worker.wait() == worker.poll() == status
    assert ("ZeroDivisionError" in worker.said()) == (status == 1)
    worker.close()


def test_a_worker_is_killed_alone(start: Callable[..., Server]) -> None:
    server = start(f"{ECHO}; {ECHO}")
    killed, other = server.fork(), server.fork()
    killed.stdin.write(b"here")
    assert killed.stdout.read(4) == b"here"
    assert killed.poll() is None
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    killed.kill()  # harmless
    other.stdin.write(b"here")
    assert other.stdout.read(4) == b"here"
    for worker in killed, other:
        worker.close()


def test_workers_die_with_their_server_and_say_how_it_ended(start: Callable[..., Server]) -> None:
    server = start(HANG)
    worker = server.fork()
    assert worker.stdout.read(4) == b"busy"
    (number,) = children(server.process.pid)
    server.process.send_signal(signal.SIGTERM)
    assert worker.wait() == -signal.SIGTERM
    wait_for_end([number])
    late = server.fork()
    assert late.wait() == -signal.SIGTERM
    for forked in worker, late:
        forked.close()


def test_what_fails_in_the_server_is_said(start: Callable[..., Server]) -> None:
    worker = start(ECHO, prepare="import module_that_is_missing").fork()
    assert worker.wait() == 1
    assert "No module named 'module_that_is_missing'" in worker.said()
    worker.close()


def test_a_server_that_hangs_before_it_forks_is_ended(start: Callable[..., Server]) -> None:
    worker = start(ECHO, prepare="time.sleep(100)").fork()
    assert worker.wait() == -signal.SIGALRM
    worker.close()


def test_an_interrupt_is_not_for_servers_and_workers(start: Callable[..., Server]) -> None:
    server = start(f"{ECHO}; {ECHO}")
    worker = server.fork()
    for _ in range(2):
        worker.stdin.write(b"work")
        assert worker.stdout.read(4) == b"work"
        for number in server.process.pid, *children(server.process.pid):
            os.kill(number, signal.SIGINT)
    assert worker.wait() == 0
    assert server.alive
    worker.close()


def test_a_parent_may_ignore_the_end_of_its_children(start: Callable[..., Server]) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # programs that it starts inherit that
    try:
        worker = start("sys.exit(3)").fork()
        assert worker.wait() == 3
        worker.close()
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_server_that_nobody_needs_ends(start: Callable[..., Server]) -> None:
    server = start(ECHO, idle=0.2)
    worker = server.fork()
    time.sleep(0.5)
    assert server.alive  # it has a worker
    worker.stdin.write(b"done")
    assert worker.wait() == 0
    assert server.process.wait() == 0
    worker.close()


@pytest.mark.parametrize("holder", ["os.getpid()", "os.fork()"], ids=["alone", "a child holds its pipes"])
def test_nothing_is_left_of_a_parent_that_is_killed(holder: str) -> None:
    work = f"{ECHO}; os.read(0, 4) and time.sleep(100)"
    program = worker_command(PARENT.format(command=fake_command(work), holder=holder))
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        holds, *numbers = (int(number) for number in parent.stdout.readline().split())
        assert len(numbers) == 3
        assert all(map(runs, numbers))
        parent.kill()
        wait_for_end(numbers)
        if holds != parent.pid:
            assert runs(holds)
            os.kill(holds, signal.SIGKILL)
