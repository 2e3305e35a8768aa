"""The shape of the code base: who may import whom, names that say nothing, links, length.

docs/architecture.md has the table of import directions.
"""

from __future__ import annotations

import ast
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cuesta.tools.import_graph import circles, import_graph, import_statements, modules

ROOT = Path(__file__).parent.parent
FOLDERS = ("frontend", "dialects", "passes", "lowering", "tools")
LONGEST_MODULE = 400
#: Modules of a folder. Rules of import are one family of ops a module, torch's private names one part of torch.
MOST_MODULES = {"frontend/aten": 30, "cuesta/torch_private": 25}
USUAL_MOST_MODULES = 20
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc"}

#: Modules of cuesta/ that stand on nothing but one another, torch and MLIR's bindings, and its rooms that do.
BASE = {
    "_mlir",
    "cache",
    "distributions",
    "errors",
    "huge_pages",
    "options",
    "own_ops",
    "policy",
    "reports",
    "runtime",
    "sizes",
    "targets",
    "torch_library",
    "torch_private",
    "torch_versions",
    "trusted_files",
}
LEVELS = BASE | {"dialects"}
COMPILER = LEVELS | {"passes", "lowering", "frontend", "cache_artifacts", "collector"}

#: Room → what it may import of cuesta, beside itself; None is anything. docs/architecture.md draws it.
MAY_IMPORT: dict[str, set[str] | None] = {
    **dict.fromkeys(BASE, BASE),
    "distributions": set(),
    "sizes": {"errors"},
    "torch_private": {"errors"},
    "policy": {"sizes", "targets", "torch_private"},
    "reports": {"options", "runtime"},
    "runtime": BASE - {"reports"},
    "dialects": LEVELS,
    "passes": LEVELS,
    "lowering": LEVELS,
    "frontend": LEVELS,
    "driver": COMPILER,
    "export": COMPILER | {"driver"},
    "collector": {"torch_private"},
    "tools": None,
}

#: A lowering enters its passes under a name like any pass.
EXCEPTIONS = {("lowering", "cuesta.passes.infra")}


def home(path: Path) -> str:
    """The room or leaf module that a file belongs to, as MAY_IMPORT names it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "cuesta" else parts[0]


def imports(path: Path) -> set[str]:
    """The absolute names that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        else:
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


#: Every module, once: by its real folder, not by the link in cuesta/.
MODULES = sorted(modules().values())


def wrong_imports(path: Path) -> Iterator[str]:
    own, where = home(path), path.relative_to(ROOT).as_posix()
    allowed = MAY_IMPORT.get(own)  # None: anything
    for name in imports(path):
        if name.partition(".")[0] in FOLDERS:
            yield f"{where}: import {name} as cuesta.{name}"
        if name.startswith("torch_mlir") and own != "_mlir":
            yield f"{where}: MLIR's bindings are named in cuesta/_mlir.py alone"
        if allowed is not None and name.startswith("cuesta."):
            target = name.split(".")[1]
            excepted = any(where.startswith(o) and name.startswith(prefix) for o, prefix in EXCEPTIONS)
            if not (target == own or target in allowed or excepted):
                yield f"{where}: {own} may not import {name}"


def test_import_directions() -> None:
    """One test for all modules: a test each took longer to begin and end than to run."""
    assert [wrong for path in MODULES for wrong in wrong_imports(path)] == []


def test_names() -> None:
    """A thing without a home shows a missing module."""
    assert [path for path in MODULES if path.stem in NAMELESS] == []


def test_length() -> None:
    assert [path for path in MODULES if len(path.read_text().splitlines()) > LONGEST_MODULE] == []


def test_links() -> None:
    for folder in FOLDERS:
        link = ROOT / "cuesta" / folder
        assert link.is_symlink()
        assert os.readlink(link) == f"../{folder}"  # relative: it must hold in every clone
        assert (link / "__init__.py").is_file()


def test_every_package_says_what_it_is() -> None:
    folders = {path.parent for path in MODULES}
    silent = [f for f in folders if not (f / "__init__.py").exists() or not docstring_of(f / "__init__.py")]
    assert not silent


def docstring_of(path: Path) -> str | None:
    return ast.get_docstring(ast.parse(path.read_text()))


def test_no_folder_is_a_long_list() -> None:
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in MODULES if path.stem != "__init__")
    long = {f: n for f, n in counts.items() if n > MOST_MODULES.get(f, USUAL_MOST_MODULES)}
    assert not long


def test_no_circle_of_imports() -> None:
    """Neither at the top of a module, nor in a function, nor for types alone."""
    graph = import_graph()
    assert circles(graph) == []
