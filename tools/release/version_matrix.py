"""Runs the tests of the public API and of whole models with each Python and each torch that this machine can get.

    make test-matrix                                      # all of them: an hour or more, and 3 GB to download for each
    make test-matrix PYTHONS=3.13 TORCHES="2.13 newest"   # some
    make test-matrix ARGS="--keep --list"                 # --help has the rest

A combination has a virtual environment of its own in .matrix/, which is removed after its tests: torch's build for
CUDA takes 5 GB. A Python that the machine lacks is taken from Debian, as a root folder that debootstrap makes, in which
the tests then run; that needs root. What came out is added to .matrix/results.json, and a table of all that is there is
printed and written to .matrix/results.md. A combination that could not be had says why; it is no failure. The exit
status is 1 where a test failed, or where there was nothing to run.

Needs the standard library alone, so that any Python can begin it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".matrix"

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCHES = ("2.11", "2.12", "2.13", "newest")

#: What depends on the versions of Python and torch: what users call, torch's contract with a backend, the graphs that
#: torch hands over, whole models, other libraries, what is kept on the disk, calls of programs. Passes and lowerings
#: see MLIR alone, whose version is pinned.
TESTS = (
    "test/driver",
    "test/end_to_end/contract",
    "test/end_to_end/test_arguments.py",
    "test/end_to_end/test_dynamic.py",
    "test/end_to_end/test_models.py",
    "test/end_to_end/test_mutations.py",
    "test/end_to_end/test_results_that_share.py",
    "test/examples",
    "test/export",
    "test/frontend",
    "test/runtime",
    "test/test_cache.py",
    "test/test_cache_artifacts.py",
    "test/test_own_ops.py",
    "test/torch_private",
)

#: Python → the release of Debian that has it.
DEBIAN = {"3.13": "trixie", "3.14": "forky"}
_MOUNTED = 'mount --bind "$1" "$0$1" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev"'
_ENTERED = f"""{_MOUNTED} && exec chroot "$0" sh -c 'cd "$0" && exec "$@"' "${{@}}\""""


class NotToBeHad(Exception):
    """A Python or a torch that this machine cannot get; says why."""


@dataclass
class Result:
    """What became of a combination."""

    python: str
    torch: str
    #: the versions that were installed, by package
    versions: dict[str, str] = field(default_factory=dict)
    passed: int = 0
    skipped: int = 0
    failed: list[str] = field(default_factory=list)
    #: why there is nothing to count; None where the tests ran
    missing: str | None = None
    commit: str = ""
    seconds: int = 0

    def cells(self) -> Iterable[str]:
        yield self.versions.get("python", self.python)
        yield self.versions.get("torch", self.torch)
        yield ", ".join(f"{name} {version}" for name, version in self.versions.items() if name in ("triton", "numpy"))
        if self.missing is not None:
            yield f"could not be had: {self.missing}"
        else:
            counts = f"{self.passed} passed, {self.skipped} skipped"
            yield f"{len(self.failed)} FAILED, {counts}" if self.failed else counts
        yield f"{self.seconds} s" if self.missing is None else ""
        yield self.commit


def find_python(version: str) -> list[str]:
    """The command that runs a Python of this version: one of the machine's, else one in a root folder of Debian's."""
    names = [Path(folder) / f"python{version}" for folder in os.get_exec_path()]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for path in [*names, *sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)]:
        # A shim is there for each version that pyenv knows, and fails for those that are not chosen.
        if path.is_file() and _succeeds([str(path), "-c", "import ensurepip, venv"]):
            return [str(path)]
    return _enter(_debian_root(version), "python3")


def _debian_root(version: str) -> Path:
    """A folder with a minimal Debian that has this Python."""
    here = f"no python{version} with venv is on PATH or in pyenv"
    if version not in DEBIAN:
        raise NotToBeHad(here)
    if not shutil.which("debootstrap") or not shutil.which("unshare") or os.geteuid() != 0:
        raise NotToBeHad(f"{here}; to take Debian's, debootstrap, unshare and root are needed")
    root = FOLDER / f"debian-{DEBIAN[version]}"
    if not (root / "usr/bin/python3").exists():
        shutil.rmtree(root, ignore_errors=True)
        # No mirror is named, but a script is: an older debootstrap does not know the names of newer releases, for
        # which it has the right script all the same.
        packages = "--include=python3,python3-venv,ca-certificates"
        script = Path("/usr/share/debootstrap/scripts/sid")
        command = ["debootstrap", "--variant=minbase", packages, DEBIAN[version], str(root), "", str(script)]
        _must(command, f"{here}; Debian {DEBIAN[version]} could not be installed")
        for name in ("etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs/ca-certificates.crt"):
            if Path("/", name).exists():
                shutil.copy(Path("/", name), root / name)
        if Path("/etc/xdg/pip").is_dir():
            shutil.copytree("/etc/xdg/pip", root / "etc/xdg/pip", dirs_exist_ok=True)
    (root / str(ROOT).lstrip("/")).mkdir(parents=True, exist_ok=True)  # the checkout may have moved since
    found = subprocess.run(_enter(root, "python3", "--version"), capture_output=True, text=True)
    if not found.stdout.startswith(f"Python {version}."):
        raise NotToBeHad(f"{here}; Debian {DEBIAN[version]} has {found.stdout.strip() or _last_line(found.stderr)}")
    return root


def _enter(root: Path, *command: str) -> list[str]:
    """A command within a root folder, where the checkout is at its own path. The mounts end with the command."""
    return ["unshare", "--mount", "sh", "-c", _ENTERED, str(root), str(ROOT), *command]


def requirement(torch: str) -> str:
    """What pip is to install: "2.13" is the last of its releases, "newest" the newest that pip finds."""
    if torch == "newest":
        return "torch"
    return f"torch=={torch}" if torch.count(".") == 2 else f"torch=={torch}.*"


def run(python: str, torch: str, keep: bool) -> Result:
    """Makes the environment of a combination, and runs the tests in it."""
    result = Result(python, torch, commit=_output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]))
    place = FOLDER / f"python{python}-torch{torch}"
    try:
        begin = find_python(python)
        interpreter = [*begin[:-1], str(place / "bin/python")]
        if not _succeeds([*interpreter, "-c", "import torch, pytest"]):
            _must([*begin, "-m", "venv", "--clear", str(place)], "no virtual environment")
            pip = [*interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            packages = [requirement(torch), "--editable", ".[test]"]
            _must([*pip, *packages], f"pip installs no {requirement(torch)} with cuesta for Python {python}")
        result.versions = _versions(interpreter)
        _run_tests(interpreter, result)
    except NotToBeHad as problem:
        result.missing = str(problem)
    finally:
        if not keep:
            shutil.rmtree(place, ignore_errors=True)
    return result


def _run_tests(interpreter: Sequence[str], result: Result) -> None:
    report, log = FOLDER / "junit.xml", FOLDER / f"python{result.python}-torch{result.torch}.log"
    report.unlink(missing_ok=True)
    jobs = ["--numprocesses", str(min(os.cpu_count() or 1, 4)), "--dist", "loadfile"]
    command = [*interpreter, "-m", "pytest", *jobs, "-p", "no:cacheprovider", "--junitxml", str(report), *TESTS]
    began = time.monotonic()
    with log.open("w") as file:
        environment = {**os.environ, "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
        ended = subprocess.run(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=environment)
    result.seconds = round(time.monotonic() - began)
    if not report.exists():
        result.failed = [f"pytest ended with status {ended.returncode} and no report: {log.relative_to(ROOT)}"]
        return
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        outcomes = {child.tag for child in case}
        if outcomes & {"failure", "error"}:
            result.failed.append(f"{case.get('classname')}.{case.get('name')}")
        elif "skipped" in outcomes:
            result.skipped += 1
        else:
            result.passed += 1


def _versions(interpreter: Sequence[str]) -> dict[str, str]:
    program = (
        "import importlib.metadata as m, json, platform; names = ['torch', 'triton', 'numpy', 'torch-mlir'];"
        "print(json.dumps({'python': platform.python_version()} | {n: m.version(n) for n in names}))"
    )
    found: dict[str, str] = json.loads(_output([*interpreter, "-c", program]))
    return found


def _must(command: Sequence[str], problem: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise NotToBeHad(f"{problem}: {_last_line(done.stderr or done.stdout)}")


def _succeeds(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, cwd=ROOT).returncode == 0
    except OSError:
        return False


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()


def _last_line(text: str) -> str:
    """The last line that says something; of pip's, the last error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["no output"]
    errors = [line for line in lines if re.match(r"(E|ERROR|error):", line)]
    return (errors or lines)[-1]


def table(results: Iterable[Result]) -> str:
    """A Markdown table, and below it the tests that failed."""
    head = ["Python", "torch", "with", "tests", "time", "commit"]
    rows = [head, ["---"] * len(head), *(list(result.cells()) for result in results)]
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    for result in results:
        lines += [f"- Python {result.python}, torch {result.torch}: {name}" for name in result.failed]
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make test-matrix", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pythons", nargs="*", default=[], metavar="X.Y", help=f"default: {' '.join(PYTHONS)}")
    parser.add_argument("--torches", nargs="*", default=[], metavar="X.Y", help=f"default: {' '.join(TORCHES)}")
    parser.add_argument("--keep", action="store_true", help="keep the environments, and use those that are there")
    parser.add_argument("--list", action="store_true", help="print the table of earlier runs, and run nothing")
    arguments = parser.parse_args(argv)
    FOLDER.mkdir(exist_ok=True)
    kept = FOLDER / "results.json"
    found = [Result(**entry) for entry in json.loads(kept.read_text())] if kept.exists() else []
    results = {(result.python, result.torch): result for result in found}
    chosen = [(p, t) for p in arguments.pythons or PYTHONS for t in arguments.torches or TORCHES]
    for python, torch in [] if arguments.list else chosen:
        print(f"Python {python}, torch {torch} …", flush=True)
        results[python, torch] = run(python, torch, arguments.keep)
        kept.write_text(json.dumps([asdict(result) for result in results.values()], indent=1))
    text = table([results[key] for key in sorted(results)])
    (FOLDER / "results.md").write_text(text)
    print(text, end="")
    ran = [results[key] for key in chosen if key in results and results[key].missing is None]
    return 0 if arguments.list or (ran and not any(result.failed for result in ran)) else 1


if __name__ == "__main__":
    sys.exit(main())
