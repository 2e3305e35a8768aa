"""Workers that die, hang or idle, and kernels that are compiled once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cuesta.cache import Cache
from cuesta.errors import CompileError
from cuesta.lowering.tt_to_binary import kernels
from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.lowering.tt_to_binary.kernels import compile_kernels, start_compiling
from cuesta.lowering.tt_to_binary.pool import Pool, Worker
from cuesta.lowering.tt_to_binary.processes import Process
from cuesta.reports import progress
from cuesta.targets import parse_target

TARGET = parse_target("cuda:90")
POINTWISE = (Path(__file__).parent / "kernels" / "pointwise.mlir").read_text()

#: A server whose workers answer at once, after what a test puts in front: `text` is the kernel's.
FAKE = """
import os, sys, signal, time
sys.path[:] = {path!r}
from cuesta.lowering.tt_to_binary.kernel import KernelBinary, pack, receive
from cuesta.lowering.tt_to_binary.server import fork_workers
def hang(path):
    open(path, "w").close()
    time.sleep(1000)
fork_workers(lambda: None, 300.0) or sys.exit()
while message := receive(lambda count: os.read(0, count)):
    head, text = message
    {act}
    binary = KernelBinary(head["name"], text, 0, head["warps"], head["name"], None, None)
    os.write(1, pack({{"kind": "binary"}}, binary.to_bytes()))
"""


def fake_pool(act: str = "pass", size: int = 1, timeout: float = 60.0) -> Pool:
    pool = Pool(size=size, timeout=timeout)
    pool.command = [sys.executable, "-c", FAKE.format(act=act, path=[p or os.getcwd() for p in sys.path])]
    return pool


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Pool]]:
    """A fresh state, as of a new process, whose pool is the one that the test appends."""
    pools: list[Pool] = []
    state = kernels._State()
    monkeypatch.setattr(state, "pool", lambda python: pools[0])
    monkeypatch.setattr(kernels, "_state", state)
    yield pools
    for pool in pools:
        pool.end()


def text(name: str, body: str = "body") -> KernelText:
    return KernelText(name, body, 4, 3)


def test_a_worker_that_dies_is_replaced_once(tmp_path: Path) -> None:
    marker = tmp_path / "died"
    pool = fake_pool(f"os.path.exists({str(marker)!r}) or (open({str(marker)!r}, 'w'), os.kill(os.getpid(), 11))")
    try:
        assert pool.compile(text("k"), "cuda:90", False).code == b"body"
        assert marker.exists()
    finally:
        pool.end()


def test_a_kernel_that_kills_every_worker_is_named_with_what_the_worker_said() -> None:
    pool = fake_pool("os.write(2, b'LLVM ERROR: out of registers\\n'); os.abort()")
    try:
        with pytest.raises(CompileError, match="kernel k for target cuda:90, twice") as caught:
            pool.compile(text("k"), "cuda:90", False)
        assert "SIGABRT" in str(caught.value) and "LLVM ERROR: out of registers" in str(caught.value)
    finally:
        pool.end()


def test_a_worker_that_hangs_is_killed_and_replaced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Process] = []

    class Noted(Worker):
        def __init__(self, process: Process) -> None:
            super().__init__(process)
            started.append(process)

    monkeypatch.setattr("cuesta.lowering.tt_to_binary.pool.Worker", Noted)
    pool = fake_pool("time.sleep(1000)", timeout=1.0)
    try:
        with pytest.raises(CompileError, match="kernel k .*longer than 1 s"):
            pool.compile(text("k"), "cuda:90", False)
    finally:
        pool.end()
    assert [process.poll() for process in started] == [-signal.SIGKILL] * 2


def test_idle_workers_that_end_cost_no_attempt() -> None:
    pool = fake_pool()
    try:
        pool.compile(text("k"), "cuda:90", False)
        (worker,) = pool._idle
        worker.process.kill()
        worker.process.wait()
        assert pool.compile(text("k"), "cuda:90", False).symbol == "k"
    finally:
        pool.end()


def test_a_worker_that_ends_as_it_is_asked_costs_no_attempt(tmp_path: Path) -> None:
    # Two that end by themselves, then one that dies, then a good one would be one too many.
    count = tmp_path / "count"
    act = (
        f"open({str(count)!r}, 'a').write('x'); n = os.path.getsize({str(count)!r});"
        " (n == 1 and os._exit(0)) or (n == 2 and os.abort())"
    )
    pool = fake_pool(act)
    try:
        assert pool.compile(text("k"), "cuda:90", False).symbol == "k"
    finally:
        pool.end()


def test_python_that_cannot_be_started_is_named() -> None:
    pool = Pool(python="/nonexistent/python", size=1)
    with pytest.raises(CompileError, match="cannot start .*/nonexistent/python"):
        pool.compile(text("k"), "cuda:90", False)


def test_an_ended_pool_says_so() -> None:
    pool = fake_pool()
    pool.end()
    with pytest.raises(CompileError, match="have been stopped"):
        pool.compile(text("k"), "cuda:90", False)


def test_no_more_workers_than_kernels_or_size(use: list[Pool]) -> None:
    use.append(fake_pool("time.sleep(0.5)", size=3))
    compile_kernels([text("a", "1"), text("b", "2")], TARGET)
    assert len(use[0]._idle) == 2
    compile_kernels([text(name, name) for name in "cdefgh"], TARGET)
    assert len(use[0]._idle) == 3


def test_the_server_starts_before_anyone_knows_how_many_kernels_there_are() -> None:
    pool = fake_pool()
    try:
        pool.warm_up()
        server = pool._server
        pool.compile(text("k"), "cuda:90", False)
        assert server is not None and pool._server is server
    finally:
        pool.end()


def test_a_server_that_is_killed_while_its_workers_compile_is_replaced(tmp_path: Path) -> None:
    begun = [tmp_path / "a", tmp_path / "b"]
    # Each kernel's first worker hangs.
    pool = fake_pool(f"path = {str(tmp_path)!r} + '/' + head['name']; os.path.exists(path) or hang(path)", size=2)
    try:
        with ThreadPoolExecutor(2) as threads:
            answers = [threads.submit(pool.compile, text(path.name), "cuda:90", False) for path in begun]
            while not all(path.exists() for path in begun):  # pytest's limit ends it
                time.sleep(0.01)
            server = pool._server
            assert server is not None
            server.process.kill()
            assert [answer.result().symbol for answer in answers] == ["a", "b"]
        assert pool._server is not server
    finally:
        pool.end()


def test_the_longest_text_goes_first(use: list[Pool], tmp_path: Path) -> None:
    order = tmp_path / "order"
    use.append(fake_pool(f"open({str(order)!r}, 'a').write(head['name'])"))
    texts = [text("a", "x"), text("b", "xxx"), text("c", "xx")]
    binaries = compile_kernels(texts, TARGET)
    assert [binary.name for binary in binaries] == ["a", "b", "c"]
    assert order.read_text() == "bca"


def test_equal_texts_are_compiled_once(use: list[Pool], tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    use.append(fake_pool(f"open({str(seen)!r}, 'a').write('x')", size=2))
    same = [text("k")] * 3
    first = compile_kernels(same, TARGET)
    again = compile_kernels(same, TARGET)
    assert first == again and len(first) == 3
    assert seen.read_text() == "x"
    compile_kernels([KernelText("k", "body", 8, 3)], TARGET)
    compile_kernels([KernelText("k", "body", 4, 2)], TARGET)
    compile_kernels(same, parse_target("cuda:80"))
    assert seen.read_text() == "xxxx"


def test_a_refusal_is_not_remembered(use: list[Pool], tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    act = f"os.path.exists({str(flag)!r}) or os.abort()"
    use.append(fake_pool(act))
    with pytest.raises(CompileError):
        compile_kernels([text("k")], TARGET)
    flag.touch()
    assert compile_kernels([text("k")], TARGET)[0].symbol == "k"


def test_all_outcomes_can_be_had(use: list[Pool]) -> None:
    use.append(fake_pool("text == b'bad' and os.abort()"))
    good, bad = start_compiling([text("a"), text("b", "bad")], TARGET).outcomes()
    assert not isinstance(good, CompileError) and good.symbol == "a"
    assert isinstance(bad, CompileError) and "kernel b" in str(bad)


def test_a_damaged_entry_on_disk_is_compiled_anew(use: list[Pool], tmp_path: Path) -> None:
    use.append(fake_pool())
    cache = Cache(tmp_path)
    compile_kernels([text("k")], TARGET, cache)
    (entry,) = tmp_path.rglob("*.entry")
    cache.put(entry.stem, b"rubbish")
    kernels._state.known.clear()
    assert compile_kernels([text("k")], TARGET, cache)[0].code == b"body"


def test_progress_is_said_where_it_is_wanted(
    use: list[Pool], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    use.append(fake_pool("time.sleep(0.5)"))
    monkeypatch.setattr(progress, "QUIET", 0.1)
    compile_kernels([text("a", "1")], TARGET)
    assert capfd.readouterr().err == ""
    monkeypatch.setenv("CUESTA_PROGRESS", "1")
    compile_kernels([text("b", "2"), text("c", "3")], TARGET)
    assert "cuesta: 1 of 2 kernels compiled" in capfd.readouterr().err


def test_an_interrupt_ends_the_workers(use: list[Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    use.append(fake_pool("time.sleep(100)"))
    compiling = start_compiling([text("k")], TARGET)

    def interrupted(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compiling.outcomes()
    assert use[0]._ended
    with pytest.raises(CompileError):
        compiling._futures[0].result(timeout=300)


def test_a_forked_child_starts_afresh(use: list[Pool]) -> None:
    use.append(fake_pool())
    compile_kernels([text("k")], TARGET)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if not kernels._state.known and not kernels._state.pools else 1)
    assert os.waitpid(pid, 0)[1] == 0


#: A main program without `if __name__ == "__main__"`. It prints how many processes it has after each kernel.
MAIN = """
import sys
from pathlib import Path
from cuesta.cache import Cache
from cuesta.lowering.tt_to_binary import kernels
from cuesta.lowering.tt_to_binary.kernel import KernelText
from cuesta.targets import parse_target
for target in "cuda:90", "cuda:80":
    texts = [KernelText("pointwise", Path(sys.argv[1]).read_text(), 4, 3)]
    (binary,) = kernels.compile_kernels(texts, parse_target(target), Cache(Path(sys.argv[2])))
    workers = [worker for pool in kernels._state.pools.values() for worker in pool._idle]
    print(binary.symbol, len(binary.code) > 1000, len(workers))
"""


def test_a_second_process_takes_what_it_can_from_the_disk(tmp_path: Path) -> None:
    main, kernel = tmp_path / "main.py", tmp_path / "pointwise.mlir"
    main.write_text(MAIN)
    kernel.write_text(POINTWISE + "// on disk\n")  # a text that no other test has compiled
    compile_kernels([text("pointwise", kernel.read_text())], TARGET, Cache(tmp_path / "cache"))
    command = [sys.executable, str(main), str(kernel), str(tmp_path / "cache")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "pointwise True 0\npointwise True 1\n"
    assert done.stderr == ""
