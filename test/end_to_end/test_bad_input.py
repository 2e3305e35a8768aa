"""What a user can get wrong, and what a machine can: each gives the right result or one clear error, and torch goes on.

Broken caches and disks are made for real and met by a fresh process. Mounts are made in a namespace of that process,
which nobody else sees and which ends with it.
"""

from __future__ import annotations

import functools
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

import cuesta
from cuesta.cache import Cache, Hit
from cuesta.errors import CuestaError, OptionError, PassFailed, Unsupported, VerifyError
from cuesta.passes.registry import find_pass
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


def command(before: str = "") -> list[str]:
    return [sys.executable, "-c", before + PROGRAM]


def run_program(variables: dict[str, object], before: str = "", mount: str = "") -> Outcome:
    """Runs PROGRAM in a process of its own, after the Python of `before`, under the shell command `mount`."""
    line = command(before)
    if mount:
        line = ["unshare", "--mount", "--map-root-user", "sh", "-c", f'{mount} && exec "$@"', "sh", *line]
    done = subprocess.run(line, env=environment(variables), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return Outcome(json.loads(done.stdout), done.stderr.splitlines())


def environment(variables: dict[str, object]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CUESTA_DUMP", "CUESTA_CACHE_DIR")}
    return {**kept, "PYTHONPATH": os.pathsep.join(sys.path), **{name: str(value) for name, value in variables.items()}}


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
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds both graphs of PROGRAM; not to be written."""
    root = tmp_path_factory.mktemp("warm") / "cache"
    outcome = run_program({"CUESTA_CACHE_DIR": root})
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
    return sorted(root.glob("??/*.entry"))


def check_whole(root: Path) -> None:
    """The cache holds both graphs and nothing else."""
    found = sorted(path for path in root.rglob("*") if path.is_file())
    assert found == entries(root) and len(found) == 2
    for path in found:
        assert isinstance(Cache(root).get(path.stem), Hit)


# The cache -------------------------------------------------------------------------------------------------------


def test_a_cached_graph_runs_in_another_process(cache: Path) -> None:
    outcome = run_program({"CUESTA_CACHE_DIR": cache})
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
def test_a_damaged_entry_is_compiled_anew(damage: Callable[[list[Path]], None], reason: str, cache: Path) -> None:
    damage(entries(cache))
    outcome = run_program({"CUESTA_CACHE_DIR": cache})
    assert outcome.hits == [False, False]
    for graph in outcome.graphs:
        assert str(cache) in graph["reason"] and reason in graph["reason"]
    (warning,) = outcome.warnings
    assert str(cache) in warning and reason in warning
    check_whole(cache)


def test_an_entry_in_an_older_format_is_written_over(cache: Path) -> None:
    for path in entries(cache):
        data = bytearray(path.read_bytes())
        data[8:12] = (0).to_bytes(4, "little")
        path.write_bytes(data)
    outcome = run_program({"CUESTA_CACHE_DIR": cache})
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
def test_code_for_another_machine_or_version_is_not_taken(other: str, cache: Path) -> None:
    outcome = run_program({"CUESTA_CACHE_DIR": cache}, before=other)
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    assert all("cuesta, torch, the CPU or an option is another" in graph["reason"] for graph in outcome.graphs)
    assert len(entries(cache)) == 4  # each finds its own again


def check_not_kept(outcome: Outcome, root: Path | str, reason: str) -> None:
    assert outcome.hits == [False, False]
    for graph in outcome.graphs:
        assert f"not kept: {root}" in graph["reason"] and reason in graph["reason"]
    (warning,) = outcome.warnings
    assert warning.startswith(f"compiled graphs are not cached: {root}") and reason in warning


def test_a_file_where_the_cache_should_be(tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.write_text("mine")
    check_not_kept(run_program({"CUESTA_CACHE_DIR": root}), root, "is a file, not a folder")
    assert root.read_text() == "mine"


def test_a_folder_that_nobody_can_make() -> None:
    check_not_kept(run_program({"CUESTA_CACHE_DIR": "/proc/cache"}), "/proc/cache", "No such file or directory")


@pytest.mark.usefixtures("mounts")
def test_a_read_only_disk(cache: Path, tmp_path: Path) -> None:
    mount = f"mount --bind {shlex.quote(str(tmp_path))} {shlex.quote(str(tmp_path))} && mount -o remount,bind,ro "
    mount += shlex.quote(str(tmp_path))
    outcome = run_program({"CUESTA_CACHE_DIR": cache}, mount=mount)
    assert (outcome.hits, outcome.warnings) == ([True, True], [])  # what is there is read
    cold = tmp_path / "cold"
    check_not_kept(run_program({"CUESTA_CACHE_DIR": cold}, mount=mount), cold, "Read-only file system")
    _truncate(entries(cache))
    outcome = run_program({"CUESTA_CACHE_DIR": cache}, mount=mount)
    assert outcome.hits == [False, False]
    assert all("damaged: " in g["reason"] and "not kept: " in g["reason"] for g in outcome.graphs)
    assert len(outcome.warnings) == 2  # that it is damaged, and that it cannot be replaced


@pytest.mark.usefixtures("mounts")
@pytest.mark.parametrize("variable", ["CUESTA_CACHE_DIR", "TMPDIR"])
def test_a_full_disk(variable: str, tmp_path: Path) -> None:
    mount = (
        f"mount -t tmpfs -o size=4k tmpfs {shlex.quote(str(tmp_path))} && echo x > {shlex.quote(str(tmp_path))}/full"
    )
    variables: dict[str, object] = {"CUESTA_CACHE_DIR": "", variable: tmp_path}
    outcome = run_program(variables, mount=mount)
    if variable == "TMPDIR":
        assert (outcome.hits, outcome.warnings) == ([False, False], [])
    else:
        check_not_kept(outcome, tmp_path, "No space left on device")


def test_two_processes_fill_one_cache(tmp_path: Path) -> None:
    variables = environment({"CUESTA_CACHE_DIR": tmp_path})
    processes = [
        subprocess.Popen(command(), env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
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
def test_a_process_that_dies_while_it_writes(death: str, tmp_path: Path) -> None:
    # The object code goes to a file in memory, whose size is limited too: the limit comes after it.
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
    done = subprocess.run(command(before), env=environment(variables), capture_output=True, check=False)
    assert done.returncode < 0
    assert entries(tmp_path) == [] and len(list(tmp_path.glob("??/*.tmp"))) == 1
    outcome = run_program(variables)
    assert (outcome.hits, outcome.warnings) == ([False, False], [])
    for path in entries(tmp_path):
        assert isinstance(Cache(tmp_path).get(path.stem), Hit)
    assert len(entries(tmp_path)) == 2


# The dump --------------------------------------------------------------------------------------------------------


def check_not_dumped(outcome: Outcome, root: Path | str, reason: str) -> None:
    for graph in outcome.graphs:
        assert graph["dump"].startswith(str(root)) and "is not whole: " in graph["dump"] and reason in graph["dump"]
    (warning,) = outcome.warnings
    assert warning.startswith(f"not every stage is dumped: {root} cannot be written: ") and reason in warning


def test_a_dump_where_none_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root, reason in ((tmp_path / "file", "Not a directory"), (Path("/proc/dump"), "No such file or directory")):
        check_not_dumped(run_program({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": root}), root, reason)


@pytest.mark.usefixtures("mounts")
def test_a_dump_that_fills_the_disk(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=8k tmpfs {shlex.quote(str(tmp_path))}"
    outcome = run_program({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": tmp_path}, mount=mount)
    check_not_dumped(outcome, tmp_path, "No space left on device")


def test_a_dump_has_a_file_a_stage_and_an_index(tmp_path: Path) -> None:
    outcome = run_program({"CUESTA_CACHE_DIR": "", "CUESTA_DUMP": tmp_path})
    assert outcome.warnings == []
    for graph in outcome.graphs:
        folder = Path(graph["dump"])
        assert folder.name in (tmp_path / "index.md").read_text()
        names = [path.name for path in sorted(folder.iterdir())]
        assert (names[0], names[-1]) == ("00_import.mlir", "report.txt")
        for path in sorted(folder.glob("*.mlir"))[:-1]:
            assert cuesta_opt.main([str(path), "-o", os.devnull]) == 0


# Options ---------------------------------------------------------------------------------------------------------


def double(x: torch.Tensor) -> torch.Tensor:
    return x + x


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"mode": "max_autotune"}, ["unknown mode 'max_autotune'", "did you mean 'max-autotune'", "reduce-overhead"]),
        ({"mode": "fastest"}, ["unknown mode 'fastest'", "default"]),
        ({"options": {"fuse": False}}, ["unknown option 'fuse'", "did you mean 'fusion'", "opt_level"]),
        ({"options": {"fusion": "no"}}, ["'fusion' wants a bool, got 'no' (str)"]),
        ({"options": {"opt_level": 9}}, ["'opt_level' wants an int from 0 to 3, got 9 (int)"]),
        ({"options": {"cache_dir": 7}}, ["'cache_dir' wants a folder or None, got 7 (int)"]),
        ({"options": {"dump": "~nobody-of-this-name/ir"}}, ["'dump'", "names no folder"]),
    ],
)
def test_a_wrong_option_leaves_torch_as_it_was(arguments: dict[str, Any], words: list[str]) -> None:
    x = torch.randn(4)
    wrong = torch.compile(double, backend="cuesta", **arguments)
    for _ in range(2):  # it does not turn into eager in silence
        with pytest.raises(BackendCompilerFailed) as caught:
            wrong(x)
        assert isinstance(caught.value.inner_exception, OptionError)
        for word in words:
            assert word in str(caught.value)
    torch.testing.assert_close(double(x), x * 2)
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


def test_a_wrong_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)
    monkeypatch.setenv("CUESTA_DUMP", "~nobody-of-this-name/ir")
    with pytest.raises(BackendCompilerFailed, match="CUESTA_DUMP names no folder"):
        torch.compile(double, backend="cuesta")(x)
    monkeypatch.delenv("CUESTA_DUMP")
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


# A compile that fails --------------------------------------------------------------------------------------------


def _raise(self: object, module: Any) -> None:
    raise KeyError("lost")


def _corrupt(self: object, module: Any) -> None:
    from cuesta._mlir import ir

    (function,) = (op for op in module.body.operations if op.operation.name == "func.func")
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], []))


def _give_up(self: object, module: Any) -> None:
    raise VerifyError("two kernels are one")


def broken(monkeypatch: pytest.MonkeyPatch, run: Callable[[object, Any], None]) -> None:
    """Makes the pass form-kernels fail."""
    import cuesta.passes

    cuesta.passes.load_all()
    cls = find_pass("form-kernels")
    assert cls is not None
    monkeypatch.setattr(cls, "run", run)


def failure(x: torch.Tensor, **options: Any) -> CuestaError:
    """The error of a compile that fails."""
    compiled = torch.compile(double, backend="cuesta", options={"cache": False, **options})
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(x)
    error = caught.value.inner_exception
    assert isinstance(error, CuestaError) and str(error) in str(caught.value)
    return error


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        (_raise, PassFailed, "pass 'form-kernels' raised KeyError: 'lost'"),
        (_corrupt, VerifyError, "pass 'form-kernels' left invalid IR behind"),
        (_give_up, VerifyError, "two kernels are one"),
    ],
)
@pytest.mark.parametrize("dumps", [True, False], ids=["dump", "no dump"])
def test_a_failing_pass_says_how_to_repeat_it(
    run: Callable[[object, Any], None],
    kind: type[CuestaError],
    words: str,
    dumps: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    x = torch.randn(4)
    with monkeypatch.context() as patch:
        broken(patch, run)
        error = failure(x, dump=tmp_path / "ir" if dumps else None)
        assert type(error) is kind and words in str(error)
        head, _, last = str(error).rpartition("\n  to reproduce: cuesta-opt ")
        assert head.startswith(words)
        file = Path(shlex.split(last)[-1])
        assert file.is_relative_to(tmp_path / "ir") == dumps
        assert cuesta_opt.main(shlex.split(last)) == 1
        assert words in capsys.readouterr().err
    if dumps:
        assert file.name == "03_before_form-kernels.mlir"
        assert file.name in (tmp_path / "ir" / "index.md").read_text()
        assert str(error) in (file.parent / "report.txt").read_text()
    assert cuesta_opt.main([*shlex.split(last), "-o", os.devnull]) == 0  # the pass works again
    torch.testing.assert_close(torch.compile(double, backend="cuesta")(x), x * 2)


def test_options_of_the_failing_pass_are_in_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken(monkeypatch, _raise)
    assert "--pass-pipeline='builtin.module(form-kernels{fuse=false})' " in str(failure(torch.randn(4), fusion=False))


def test_a_failure_that_cannot_be_written_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/proc/none")
    broken(monkeypatch, _raise)
    lines = str(failure(torch.randn(4), dump="/proc/none")).splitlines()
    assert lines[0].startswith("pass 'form-kernels' raised KeyError")
    assert lines[1].startswith("  the module before it could not be written: [Errno 2]")


def _refuse(self: object, module: Any) -> None:
    raise Unsupported("cuesta.add has no kernel")


@pytest.mark.may_fall_back("the test makes a pass refuse it")
def test_what_a_level_cannot_express_runs_op_by_op(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr("cuesta.frontend.backend.log.warning", lambda text, *values: warnings.append(text % values))
    broken(monkeypatch, _refuse)
    x = torch.randn(4)
    torch.testing.assert_close(torch.compile(double, backend="cuesta", options={"cache": False})(x), x * 2)
    assert warnings == ["a inference graph runs op by op: cuesta.add has no kernel"]
    (graph,) = cuesta.report().graphs
    assert graph.fallback == "cuesta.add has no kernel"


def test_a_failing_compile_can_fall_back_to_eager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broken(monkeypatch, _raise)
    x = torch.randn(4)
    with torch._dynamo.config.patch(suppress_errors=True):
        torch.testing.assert_close(torch.compile(double, backend="cuesta", options={"cache": False})(x), x * 2)
