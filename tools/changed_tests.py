"""Prints the tests of the files that have changed since a commit: `python -m cuesta.tools.changed_tests [COMMIT]`.

`make quick` runs these tests. Without a commit, prints those of changes since HEAD and of untracked files. The tests of
a source file have the file's name (`test_fold_views.py` and `fold_views.mlir` for `passes/graph/fold_views.py`,
`test_import_shape.py` for `frontend/aten/shape.py`) or the name of a folder that contains the file
(`test_form_kernels.py` for `passes/form_kernels/fusion/concat_operands.py`), or they lie in that folder's mirror
(`test/passes/form_kernels/`). The tests of import directions and of small graphs from end to end belong to every
change.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = ("test/test_imports.py", "test/end_to_end/test_dynamic.py")


def changed_files(commit: str = "HEAD") -> list[Path]:
    """Changed and untracked files, relative to the root. Raises CalledProcessError for an unknown commit."""
    commands = (["git", "diff", "--name-only", commit], ["git", "ls-files", "--others", "--exclude-standard"])
    lines = [subprocess.run(c, cwd=ROOT, check=True, text=True, capture_output=True).stdout for c in commands]
    return [Path(line) for line in "".join(lines).splitlines()]


def tests_of(changed: Iterable[Path], tests: Iterable[Path]) -> list[Path]:
    """The subset of `tests` that belongs to the changed files or to every change."""
    files = list(changed)
    sources = [path for path in files if path.parts[0] != "test"]
    names = {name for path in sources for name in (path.stem, *path.parts[1:-1])}
    # Not test/passes/ for every file of passes/: the mirrors of a room's own folders only.
    mirrors = {Path("test", folder) for path in sources for folder in path.parents if len(folder.parts) > 1}

    def belongs(test: Path) -> bool:
        name = test.stem.removeprefix("test_").removeprefix("import_")
        return test in files or name in names or test.parent in mirrors or str(test) in ALWAYS

    return sorted(filter(belongs, tests))


def all_tests() -> list[Path]:
    """Every file that pytest collects, relative to the root."""
    files = [*(ROOT / "test").rglob("test_*.py"), *(ROOT / "test").rglob("*.mlir")]
    return [path.relative_to(ROOT) for path in files]


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    try:
        changed = changed_files(*given[:1])
    except subprocess.CalledProcessError as problem:
        print(f"changed_tests: {problem.stderr.strip()}", file=sys.stderr)
        return 2
    print("\n".join(map(str, tests_of(changed, all_tests()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
