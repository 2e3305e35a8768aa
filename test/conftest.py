"""Makes every test repeatable, and makes pytest collect each .mlir file with a RUN line as one test.

A RUN line of the plain form `cuesta-opt ARGS %s [2>&1] [| filecheck ARGS %s]`, or the same with `cuesta-run`, runs in
this process: starting Python and importing torch for each of hundreds of files would take minutes. Any other RUN line
runs in bash. Tests marked `slow` run with CUESTA_FULL=1 only.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import os
import random
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis
import numpy
import pytest
import torch
import torch._dynamo
import torch._functorch.config
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

from cuesta import huge_pages
from cuesta.driver.autotune import machine_trial
from cuesta.reports import compile_report
from cuesta.runtime.artefact import Artefact
from cuesta.runtime.executable import Executable
from cuesta.runtime.kernel_table import KernelTable
from cuesta.runtime.schema.checks import refusing
from cuesta.runtime.schema.metadata import check_metadata
from cuesta.runtime.schema.program import check_program
from cuesta.tools import cuesta_opt, cuesta_run

_RUN = re.compile(r"//\s*RUN:(.*)")
_TOOLS: dict[str, Callable[[list[str]], int]] = {"cuesta-opt": cuesta_opt.main, "cuesta-run": cuesta_run.main}

#: Thread count of torch, the same on every machine because sums are split into as many parts as there are threads. Two
#: rather than one, to test code that splits work between threads.
THREADS = 2

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


#: Holds a folder for each test, because torch caches traced graphs on disk for later processes.
_torch_caches = tempfile.TemporaryDirectory(prefix="cuesta-tests-", ignore_cleanup_errors=True)
_tests = itertools.count()


@pytest.fixture(autouse=True, scope="session")
def every_program_passes_the_schema() -> Iterator[None]:
    """Checks every program that a test loads, also one just compiled, against the schema for files."""
    load = Executable.__init__

    def checked(self: Executable, artefact: Artefact, kernels: KernelTable | None = None) -> None:
        if "convention" in artefact.metadata:
            check_metadata(artefact.metadata, artefact.kernels)
        else:  # compiled from IR, so without a calling convention
            with refusing("program"):
                check_program(artefact.metadata["program"], None, artefact.kernels)
        load(self, artefact, kernels)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executable, "__init__", checked)
        yield


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a quarter of a minute or more; runs with CUESTA_FULL=1")
    # No cache: a test's compile must not depend on what an earlier test or an earlier run has left on disk.
    os.environ["CUESTA_CACHE_DIR"] = ""
    # A kernel that does not compile fails the test instead of falling back.
    os.environ["CUESTA_STRICT"] = "1"
    torch.set_num_threads(THREADS)
    # Dynamo times each graph's guards for a log, 26 ms. The reset before each test turns that on again.
    torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0
    # Programs request huge pages for large blocks on every machine, also on one that gives free pages to its host.
    huge_pages.gives_free_pages_away = lambda: False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("CUESTA_FULL") == "1":
        return
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="slow: set CUESTA_FULL=1 to run it"))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Seeds the random numbers that a test module draws on import, so that they do not depend on other modules."""
    if isinstance(collector, pytest.Module):
        seed()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seeds the random numbers of module-scoped fixtures, which run before a test's own. Gives torch an empty cache."""
    seed()
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(_torch_caches.name, str(next(_tests)))


def seed() -> None:
    # torch.manual_seed would also note the seed for CUDA, MTIA and XPU, with a traceback each: 3 ms, thrice a test.
    torch.default_generator.manual_seed(0)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(0)
    numpy.random.seed(0)
    random.seed(0)


def switches() -> dict[str, Any]:
    """The global state that one test could leave changed for the next."""
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "threads": torch.get_num_threads(),
        "gradients": torch.is_grad_enabled(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "precision of products": torch.get_float32_matmul_precision(),
        "precision of products on a GPU": torch.backends.cuda.matmul.fp32_precision,
        "that torch.backends' flags may be set": not torch.backends.flags_frozen(),
        "torch._dynamo.config": torch._dynamo.config.get_config_copy(),  # type: ignore[attr-defined]
        "torch._functorch.config": torch._functorch.config.get_config_copy(),  # type: ignore[attr-defined]
        "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
    }


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Isolates each test: same random numbers, nothing compiled. A test that fails alone also fails among others.

    Fails a test that leaves one of torch's switches or an environment variable changed.
    """
    before = switches()
    torch._dynamo.reset()
    compile_report.clear()  # Dynamo's reset does not clear exported programs' reports
    seed()
    yield
    torch._dynamo.reset()
    left = [name for name, value in switches().items() if value != before[name]]
    assert not left, f"the test changed {', '.join(left)}, and did not put it back"


@pytest.fixture(autouse=True)
def no_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the fixed rule choose each matrix product's implementation on every machine, not a measurement.

    test_product_trial.py tests the measurement."""
    monkeypatch.setattr(machine_trial, "is_measured", lambda: False)


#: Loads the modules that argv names, then forks for each program that it is sent, as a line of JSON. Answers with the
#: exit status. Its own handler of the process's end is the last to run, and leaves out what Python does after that: to
#: take the modules apart takes two seconds.
_FORKER = """
import atexit, importlib, json, os, sys
def leave():
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
atexit.register(leave)
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(job["environment"])
        for descriptor, path in enumerate(job["files"]):
            os.dup2(os.open(path, os.O_RDWR), descriptor)
        sys.argv = ["-c", *job["arguments"]]
        status = 1
        exec(job["program"])
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
status = 0
"""


class Forker:
    """Runs Python programs in processes that have loaded the same modules and done nothing with them. torch and Dynamo
    take a process that starts anew six seconds to load."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        line = [sys.executable, "-c", _FORKER, *modules]
        self._process = subprocess.Popen(
            line, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(
        self, program: str, *arguments: str | Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the program to its end. The environment is that of this process, or the one given. Variables that torch
        reads when it is imported have no effect."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile("r")) for _ in range(3)]
            job = {
                "program": program,
                "arguments": [str(argument) for argument in arguments],
                "environment": dict(os.environ if environment is None else environment),
                "files": [file.name for file in files],
            }
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(program, status, files[1].read(), files[2].read())

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.communicate()


@pytest.fixture(scope="session")
def start_forker() -> Iterator[Callable[..., Forker]]:
    """`start_forker(modules, environment)` → a Forker, which ends with the tests at the latest."""
    with contextlib.ExitStack() as stack:

        def start(modules: Sequence[str], environment: Mapping[str, str] | None = None) -> Forker:
            forker = Forker(modules, os.environ if environment is None else environment)
            stack.callback(forker.end)
            return forker

        yield start


@pytest.fixture(scope="session")
def forked(start_forker: Callable[..., Forker]) -> Forker:
    """`forked(program, *arguments)` runs a Python program in a process that has loaded torch and Dynamo, not cuesta."""
    return start_forker(["torch._dynamo", "torch._functorch.aot_autograd"])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".mlir" and run_lines(file_path):
        return MlirFile.from_parent(parent, path=file_path)
    return None


class MlirFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        yield MlirTest.from_parent(self, name=self.path.stem)


class MlirTest(pytest.Item):
    """Passes when every RUN line of its file does."""

    def runtest(self) -> None:
        run_all(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        if isinstance(excinfo.value, RunFailed):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.path.name


class RunFailed(Exception):
    """A RUN line failed; the text is the whole report."""

    def __init__(self, line: str, why: str, outputs: dict[str, str]) -> None:
        parts = [f"RUN: {line}", why]
        parts += [f"--- {name} ---\n{text.rstrip()}" for name, text in outputs.items() if text.strip()]
        super().__init__("\n".join(parts))


def run_all(path: Path) -> None:
    """Runs every RUN line of a file; raises RunFailed if one fails."""
    for line in run_lines(path):
        command = PlainCommand.read(line, path)
        if command is not None:
            command.run()
        else:
            run_in_bash(line, path)


@pytest.fixture
def run_mlir() -> Callable[[Path], None]:
    return run_all


def run_lines(path: Path) -> list[str]:
    """The RUN lines of a file; a line that ends in a backslash continues in the next RUN line."""
    lines: list[str] = []
    continued = False
    for text in _RUN.findall(path.read_text(errors="replace")):
        part = text.strip()
        if continued:
            lines[-1] += " " + part.removesuffix("\\").strip()
        else:
            lines.append(part.removesuffix("\\").strip())
        continued = part.endswith("\\")
    return lines


@dataclass(frozen=True)
class PlainCommand:
    """`cuesta-opt … | filecheck …`, with %s filled in."""

    line: str
    tool: str
    tool_arguments: list[str]
    filecheck_arguments: list[str] | None
    joins_stderr: bool

    @staticmethod
    def read(line: str, path: Path) -> PlainCommand | None:
        """The command, or None where the line needs a shell."""
        joins_stderr = " 2>&1" in line
        lexer = shlex.shlex(line.replace(" 2>&1", ""), posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, ""
        words = [word.replace("%s", str(path)) for word in lexer]
        parts = list(_split(words, "|"))
        tools = [part[:1] for part in parts]
        needs_shell = any(set(word) & set("<>;&$`*") or "%" in word for word in words if word != "|")
        if needs_shell or tools[0] not in [[name] for name in _TOOLS] or tools[1:] not in ([], [["filecheck"]]):
            return None
        return PlainCommand(line, tools[0][0], parts[0][1:], parts[1][1:] if len(parts) == 2 else None, joins_stderr)

    def run(self) -> None:
        """Runs the command; raises RunFailed with the whole output if it fails."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out if self.joins_stderr else err):
            status = _TOOLS[self.tool](self.tool_arguments)
        outputs = {"output": out.getvalue(), "errors": err.getvalue()}
        if status != 0:
            raise RunFailed(self.line, f"{self.tool} returned {status}", outputs)
        if self.filecheck_arguments is None:
            return
        options = parse_argv_options(["filecheck", *self.filecheck_arguments])
        with contextlib.redirect_stderr(io.StringIO()) as message:
            text = FInput.canonicalize_line_ends(out.getvalue())
            status = Matcher(options, FInput("-", text), Parser.from_opts(options)).run()
        if status != 0:
            raise RunFailed(self.line, f"filecheck returned {status}", {**outputs, "filecheck": message.getvalue()})


def _split(words: list[str], separator: str) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word == separator:
            yield part
            part = []
        else:
            part.append(word)
    yield part


def run_in_bash(line: str, path: Path) -> None:
    """Runs the line in bash; raises RunFailed if the line, or any part of its pipe, fails."""
    search_path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line.replace("%s", shlex.quote(str(path)))],
        env={**os.environ, "PATH": search_path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        outputs = {"output": done.stdout, "errors": done.stderr}
        raise RunFailed(line, f"the shell returned {done.returncode}", outputs)
