"""What a machine can get wrong: a broken cache, a full disk, a process that dies. Each gives the right result.

Caches and disks are broken for real and met by a fresh process. Mounts are made in a namespace of that process, which
nobody else sees and which ends with it.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuesta.cache import Cache, Hit
from cuesta.tools import cuesta_opt

pytestmark = pytest.mark.usefixtures("cuesta_only")

#: Two graphs, compared with eager; prints what the report says of each.
PROGRAM = """
import json, torch, cuesta

def soft(x): return torch.softmax(x * 2, -1)
def total(x): return (x + 1).relu().sum(0)

x = torch.randn(8, 8)
for f in (soft, total):
    torch.testing.assert_close(torch.compile(f, backend="cuesta")(x), f(x))
print(json.dumps([{**graph["cache"], "dump": graph["dump"]} for graph in cuesta.report().as_dict()["graphs"]]))
"""


@dataclass(frozen=True)
class Outcome:
    """What a run of PROGRAM said."""

    graphs: list[dict[str, Any]]
    warnings: list[str]
    """The lines on stderr."""

    @property
    def hits(self) -> list[bool]:
        return [graph["hit"] for graph in self.graphs]


#: Makes a namespace in which this process alone sees the mounts of the shell command {mount}, like `unshare --mount
#: --map-root-user`.
MOUNT = """
import ctypes, os, subprocess
libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
assert libc.unshare(0x10000000 | 0x00020000) == 0, os.strerror(ctypes.get_errno())  # CLONE_NEWUSER | CLONE_NEWNS
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {{user}} 1"), ("gid_map", f"0 {{group}} 1")):
    with open(f"/proc/self/{{name}}", "w") as file:
        file.write(text)
assert libc.mount(b"none", b"/", None, 0x4000 | 0x40000, None) == 0  # MS_REC | MS_PRIVATE
subprocess.run({mount!r}, shell=True, check=True)
"""

#: Prints the modules of torch and cuesta that were loaded from files.
MODULES = """
import sys
files = {name for name, module in sys.modules.items() if getattr(module, "__file__", None) and module.__spec__}
print(*sorted(name for name in files if name.startswith(("torch.", "cuesta."))))
"""


@dataclass(frozen=True)
class Fresh:
    """Runs programs in processes that have loaded everything and compiled nothing."""

    fork: Callable[..., subprocess.CompletedProcess[str]]

    def status(self, variables: dict[str, object], before: str = "", mount: str = "") -> tuple[int, str, str]:
        """Exit status, output and errors of PROGRAM after the Python of `before`. `mount` is a shell command, in a
        namespace that only this process sees."""
        mounting = MOUNT.format(mount=mount) if mount else ""
        done = self.fork(mounting + before + PROGRAM, environment=environment(variables))
        return done.returncode, done.stdout, done.stderr

    def run(self, variables: dict[str, object], before: str = "", mount: str = "") -> Outcome:
        """What PROGRAM said, which must come to its end."""
        status, out, errors = self.status(variables, before, mount)
        assert status == 0, errors
        return Outcome(json.loads(out), errors.splitlines())


def environment(variables: dict[str, object]) -> dict[str, str]:
    """The variables beside those of this process; torch's cache is off, so that ours is asked."""
    variables = {"TORCHINDUCTOR_AUTOGRAD_CACHE": 0, **variables}
    kept = {name: value for name, value in os.environ.items() if name not in ("CUESTA_DUMP", "CUESTA_CACHE_DIR")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), **{name: str(value) for name, value in variables.items()}}


@pytest.fixture(scope="module")
def fresh(start_forker: Callable[..., Any]) -> Iterator[Fresh]:
    """Fresh processes. A first one says what a compile loads."""
    variables = environment({"CUESTA_CACHE_DIR": ""})
    first = start_forker(["torch._dynamo", "cuesta.driver.backend", "cuesta.driver.lower"], variables)
    done = first(PROGRAM + MODULES, environment=variables)
    first.end()
    assert done.returncode == 0, done.stderr
    forker = start_forker(done.stdout.splitlines()[-1].split(), variables)
    yield Fresh(forker)
    forker.end()


@functools.cache
def can_mount() -> bool:
    line = ["unshare", "--mount", "--map-root-user", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    try:
        return subprocess.run(line, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def mounts() -> None:
    """Skips a test where the system lets nobody make a namespace with mounts of its own."""
    if not can_mount():
        pytest.skip("needs user and mount namespaces")


@pytest.fixture(scope="module")
def warm(fresh: Fresh, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds both graphs of PROGRAM; not to be written."""
    root = tmp_path_factory.mktemp("warm") / "cache"
    outcome = fresh.run({"CUESTA_CACHE_DIR": root})
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    assert all(graph["reason"].startswith("no entry") for graph in outcome.graphs)
    assert len(entries(root)) == 2
    return root


@pytest.fixture
def cache(warm: Path, tmp_path: Path) -> Path:
    """A copy of `warm` to damage."""
    shutil.copytree(warm, tmp_path / "cache")
    return tmp_path / "cache"


def entries(root: Path) -> list[Path]:
    """Those of programs; which operators stay whole is an entry too."""
    return sorted(path for path in root.glob("??/*.entry") if b"cuestaA\n" in path.read_bytes())


def check_whole(root: Path) -> None:
    """The cache holds both graphs, all of it is whole, and nothing else is in its folder."""
    assert len(entries(root)) == 2
    found = [path for path in root.rglob("*") if path.is_file()]
    assert {path.suffix for path in found} == {".entry"}
    for path in found:
        assert isinstance(Cache(root).get(path.stem), Hit)


# The cache -------------------------------------------------------------------------------------------------------


def test_a_cached_graph_runs_in_another_process(fresh: Fresh, cache: Path) -> None:
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert (outcome.hits, outcome.warnings) == ([True, True], [])


def _truncate(paths: list[Path]) -> None:
    for path in paths:
        os.truncate(path, path.stat().st_size // 2)


def _empty(paths: list[Path]) -> None:
    for path in paths:
        os.truncate(path, 0)


def _flip_a_bit(paths: list[Path]) -> None:
    for path in paths:
        data = bytearray(path.read_bytes())
        data[-100] ^= 1
        path.write_bytes(data)


def _garble(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(bytes(range(256)) * 20)


def _exchange(paths: list[Path]) -> None:
    # What another graph, version or CPU would run under this name.
    first, second = (path.read_bytes() for path in paths)
    paths[0].write_bytes(second)
    paths[1].write_bytes(first)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_truncate, "damaged: "),
        (_empty, "damaged: no header"),
        (_flip_a_bit, "damaged: checksum differs"),
        (_garble, "damaged: no header"),
        (_exchange, "damaged: checksum differs"),
    ],
)
def test_a_damaged_entry_is_compiled_anew(
    fresh: Fresh, damage: Callable[[list[Path]], None], reason: str, cache: Path
) -> None:
    damage(entries(cache))
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert outcome.hits == [False, False]
    for graph in outcome.graphs:
        assert str(cache) in graph["reason"] and reason in graph["reason"]
    (warning,) = outcome.warnings
    assert str(cache) in warning and reason in warning
    check_whole(cache)


def test_an_entry_in_an_older_format_is_written_over(fresh: Fresh, cache: Path) -> None:
    for path in entries(cache):
        data = bytearray(path.read_bytes())
        data[8:12] = (0).to_bytes(4, "little")
        path.write_bytes(data)
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    assert all("made by another version" in graph["reason"] for graph in outcome.graphs)
    check_whole(cache)


@pytest.mark.parametrize(
    "other",
    [
        "import cuesta.cache; cuesta.cache._cpu = lambda: ('another CPU',)",
        "import cuesta.cache; cuesta.cache._sources = lambda package: 'another cuesta'",
        "import torch; torch.__version__ = '2.12.0'",
    ],
)
def test_code_for_another_machine_or_version_is_not_taken(fresh: Fresh, other: str, cache: Path) -> None:
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache}, before=other)
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    assert all("no entry: " in graph["reason"] for graph in outcome.graphs)
    assert len(entries(cache)) == 4  # each finds its own again


def check_not_kept(outcome: Outcome, root: Path | str, reason: str) -> None:
    assert outcome.hits == [False, False]
    for graph in outcome.graphs:
        assert f"not kept: {root}" in graph["reason"] and reason in graph["reason"]
    (warning,) = outcome.warnings
    assert warning.startswith(f"compiled graphs are not cached: {root}") and reason in warning


def test_a_file_where_the_cache_should_be(fresh: Fresh, tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("mine")
    check_not_kept(fresh.run({"CUESTA_CACHE_DIR": root}), root, "is a file, not a folder")
    assert root.read_text() == "mine"


def test_a_folder_that_nobody_can_make(fresh: Fresh) -> None:
    check_not_kept(fresh.run({"CUESTA_CACHE_DIR": "/proc/cache"}), "/proc/cache", "No such file or directory")


@pytest.mark.usefixtures("mounts")
def test_a_read_only_disk(fresh: Fresh, cache: Path, tmp_path: Path) -> None:
    mount = f"mount --bind {shlex.quote(str(tmp_path))} {shlex.quote(str(tmp_path))} && mount -o remount,bind,ro "
    mount += shlex.quote(str(tmp_path))
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache}, mount=mount)
    assert (outcome.hits, outcome.warnings) == ([True, True], [])  # what is there is read
    cold = tmp_path / "cold"
    check_not_kept(fresh.run({"CUESTA_CACHE_DIR": cold}, mount=mount), cold, "Read-only file system")
    _truncate(entries(cache))
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache}, mount=mount)
    assert outcome.hits == [False, False]
    assert all("damaged: " in g["reason"] and "not kept: " in g["reason"] for g in outcome.graphs)
    assert len(outcome.warnings) == 2  # that it is damaged, and that it cannot be replaced


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("variable", ["CUESTA_CACHE_DIR", "TMPDIR"])
def test_a_full_disk(fresh: Fresh, variable: str, tmp_path: Path) -> None:
    mount = (
        f"mount -t tmpfs -o size=4k tmpfs {shlex.quote(str(tmp_path))} && echo x > {shlex.quote(str(tmp_path))}/full"
    )
    variables: dict[str, object] = {"CUESTA_CACHE_DIR": "", variable: tmp_path}
    outcome = fresh.run(variables, mount=mount)
    if variable == "TMPDIR":
        assert (outcome.hits, outcome.warnings) == ([False, False], [])
    else:
        check_not_kept(outcome, tmp_path, "No space left on device")


def test_two_processes_fill_one_cache(tmp_path: Path) -> None:
    variables = environment({"CUESTA_CACHE_DIR": tmp_path})
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    for process in processes:
        _, errors = process.communicate()
        assert (process.returncode, errors) == (0, "")
    check_whole(tmp_path)


@pytest.mark.parametrize(
    "death",
    [
        "os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)",  # all written, nothing renamed
        # Half written: a limit on the size of files, which kills.
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); signal.signal(signal.SIGXFSZ, signal.SIG_DFL)",
    ],
    ids=["before the rename", "in the middle"],
)
def test_a_process_that_dies_while_it_writes(fresh: Fresh, death: str, tmp_path: Path) -> None:
    before = f"""
import os, resource, signal
import cuesta.cache
write = cuesta.cache._write
def dying(path, data):
    {death}
    write(path, data)
cuesta.cache._write = dying
"""
    variables: dict[str, object] = {"CUESTA_CACHE_DIR": tmp_path}
    status, *_ = fresh.status(variables, before)
    assert status < 0
    assert entries(tmp_path) == [] and len(list(tmp_path.glob("??/*.tmp"))) == 1
    (left,) = tmp_path.glob("??/*.tmp")
    assert Cache(tmp_path).size() == left.stat().st_size
    os.utime(left, (time.time() - 60,) * 2)
    outcome = fresh.run(variables)
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    check_whole(tmp_path)  # and what the dead process left is gone


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_without_end(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _writable(path: Path) -> None:
    path.chmod(0o666)


@pytest.mark.parametrize("change", [_fifo, _link_without_end, _writable])
def test_an_entry_that_is_not_to_be_trusted_is_compiled_anew(
    fresh: Fresh, change: Callable[[Path], None], cache: Path
) -> None:
    for path in entries(cache):
        change(path)
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert outcome.hits == [False, False]
    (warning,) = outcome.warnings
    assert f"compiled again: {cache}" in warning
    check_whole(cache)


def test_a_cache_that_others_may_write_is_left_out(fresh: Fresh, cache: Path) -> None:
    cache.chmod(0o777)
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert outcome.hits == [False, False]
    (warning,) = outcome.warnings
    assert f"{cache} may be written by everybody" in warning
    for graph in outcome.graphs:
        assert "may be written by everybody" in graph["reason"] and graph["reason"].count(str(cache)) == 1
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


@pytest.mark.parametrize("text", [b"\xff\xfe", b"", b"aten.nobody.default\naten.wrote.default", b"[" * 100_000])
def test_which_ops_stay_whole_is_found_out_anew_where_the_entry_says_nonsense(
    fresh: Fresh, text: bytes, cache: Path
) -> None:
    (path,) = {*cache.glob("??/*.entry")} - {*entries(cache)}
    good = Cache(cache).get(path.stem)
    assert Cache(cache).put(path.stem, text)
    outcome = fresh.run({"CUESTA_CACHE_DIR": cache})
    assert (outcome.hits, outcome.warnings) == ([True, True], [])
    assert Cache(cache).get(path.stem) == good


#: Prints what the report says of a graph that was compiled with a limit on the size of files.
LIMITED = """
import resource
import torch, cuesta
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
x = torch.randn(8, 8)
torch.testing.assert_close(torch.compile(torch.sin, backend="cuesta")(x), torch.sin(x))
print(cuesta.report().as_dict()["graphs"][0]["cache"]["reason"])
"""


def test_a_limit_on_the_size_of_files_stops_no_compile(fresh: Fresh, tmp_path: Path) -> None:
    done = fresh.fork(LIMITED, environment=environment({"CUESTA_CACHE_DIR": tmp_path}))
    assert done.returncode == 0, done.stderr
    assert f"not kept: {tmp_path} cannot be written" in done.stdout and "File too large" in done.stdout
    assert done.stderr.startswith(f"compiled graphs are not cached: {tmp_path} cannot be written")


# The dump --------------------------------------------------------------------------------------------------------


def check_not_dumped(outcome: Outcome, root: Path | str, reason: str) -> None:
    for graph in outcome.graphs:
        assert graph["dump"].startswith(str(root)) and "is incomplete: " in graph["dump"] and reason in graph["dump"]
    (warning,) = outcome.warnings
    # The first write that fails is warned of: it is not always that of the graph whose report says why.
    assert f": {root} cannot be written: [Errno " in warning


def test_a_dump_where_none_can_be(fresh: Fresh, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root, reason in ((tmp_path / "file", "Not a directory"), (Path("/proc/dump"), "No such file or directory")):
        check_not_dumped(fresh.run({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": root}), root, reason)


@pytest.mark.usefixtures("mounts")
def test_a_dump_that_fills_the_disk(fresh: Fresh, tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=8k tmpfs {shlex.quote(str(tmp_path))}"
    outcome = fresh.run({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": tmp_path}, mount=mount)
    check_not_dumped(outcome, tmp_path, "No space left on device")


def test_a_dump_has_a_file_a_stage_and_an_index(fresh: Fresh, tmp_path: Path) -> None:
    outcome = fresh.run({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": tmp_path})
    assert outcome.warnings == []
    for graph in outcome.graphs:
        folder = Path(graph["dump"])
        assert folder.name in (tmp_path / "index.md").read_text()
        names = [path.name for path in sorted(folder.iterdir())]
        assert (names[0], names[-1]) == ("00_import.mlir", "report.txt")
        for path in sorted(folder.glob("*.mlir"))[:-1]:
            assert cuesta_opt.main([str(path), "-o", os.devnull]) == 0
