"""Builds the source distribution and the wheel into dist/, and tries the wheel as a user meets it.

    make dist

The wheel is built from the source distribution, and a second time from the checkout: both must hold the same. twine
checks what an index would show. Then the wheel is installed into an environment that was empty, in a folder of its own.
There README's examples are run, and each command prints its versions. `test/packaging` has rules for what is in the
wheel.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

#: What the distributions are made of.
FOLDERS = ("cuesta", "dialects", "frontend", "lowering", "passes", "tools")
FILES = (
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "MANIFEST.in", "README.md", "SECURITY.md"),
    "pyproject.toml",
)
COMMANDS = ("cuesta-opt", "cuesta-run", "cuesta-bench", "cuesta-demo")


def copy_sources(target: Path) -> None:
    """Copies what the distributions are made of, links as links. A build in the checkout itself would leave a folder
    build/, and take from it what was deleted since."""
    for name in FILES:
        shutil.copy(ROOT / name, target / name)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))


def build(sources: Path, target: Path, *what: str) -> None:
    """Builds into `target`; without --sdist or --wheel both, the wheel from the source distribution."""
    run([sys.executable, "-m", "build", "--outdir", str(target), *what, str(sources)], quiet=True)


def files_of(wheel: Path) -> dict[str, str]:
    """Name → digest of each file in a wheel, but for the list of them all."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/RECORD")]
        if len(set(names)) != len(names):
            raise SystemExit(f"{wheel.name} has a file twice")
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in names}


def only(folder: Path, pattern: str) -> Path:
    """The one file of that pattern in a folder."""
    (found,) = folder.glob(pattern)
    return found


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """The names that are in one alone, or differ."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def examples(page: str) -> list[str]:
    """The Python examples of a Markdown page."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def run(
    command: Sequence[str], quiet: bool = False, folder: Path = ROOT, environment: dict[str, str] | None = None
) -> None:
    """Runs a command; prints what it says if it fails, and without `quiet` in any case. Exits if it fails."""
    output = subprocess.PIPE if quiet else None
    done = subprocess.run(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{done.stdout or ''}\n{' '.join(command)}: exit status {done.returncode}")


def try_wheel(wheel: Path, torch: str, folder: Path) -> None:
    """Installs the wheel into a new environment in `folder`, and runs README's examples and the commands there."""
    place = folder / "environment"
    run([sys.executable, "-m", "venv", str(place)])
    python = str(place / "bin/python")
    run([python, "-m", "pip", "install", "--quiet", f"torch=={torch}", str(wheel)])
    run([python, "-m", "pip", "check"])
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    # Nothing of the checkout's: neither its modules nor its cache.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CUESTA", "VIRTUAL"))}
    clean["CUESTA_CACHE_DIR"] = str(folder / "cache")
    program = elsewhere / "readme.py"
    blocks = examples((ROOT / "README.md").read_text())
    if not blocks:
        raise SystemExit("README.md has no example in Python")
    program.write_text("\n\n".join(blocks))
    run([python, str(program)], folder=elsewhere, environment=clean)
    for command in COMMANDS:
        run([str(place / "bin" / command), "--version"], folder=elsewhere, environment=clean)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make dist", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--torch", required=True, metavar="VERSION", help="the torch to try the wheel with")
    arguments = parser.parse_args(argv)
    began = time.monotonic()

    def told(text: str) -> None:
        print(f"dist: {time.monotonic() - began:5.0f} s  {text}", flush=True)

    target = ROOT / "dist"
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="cuesta-dist-") as name:
        folder = Path(name)
        (folder / "sources").mkdir()
        copy_sources(folder / "sources")
        build(folder / "sources", target)
        wheel = only(target, "*.whl")
        told(f"built {wheel.name} and {only(target, '*.tar.gz').name}")
        run([sys.executable, "-m", "twine", "check", "--strict", *map(str, sorted(target.iterdir()))])
        build(folder / "sources", folder / "again", "--wheel")
        found = files_of(wheel)
        differ = differences(found, files_of(only(folder / "again", "*.whl")))
        if differ:
            raise SystemExit(f"the wheels from the source distribution and from the checkout differ in {differ}")
        told(f"the wheel is the same from the checkout: {len(found)} files")
        try_wheel(wheel, arguments.torch, folder)
        told(f"README's examples and {', '.join(COMMANDS)} run in an environment of their own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
