"""The shape of the code base: who may import whom, names that say nothing, links, length.

docs/architecture.md has the table of import directions.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("frontend", "dialects", "passes", "lowering", "tools")
LONGEST_MODULE = 400
NAMELESS = {"utils", "util", "helpers", "helper", "common", "misc"}

#: Modules of cuesta/ that stand on nothing but one another, torch and MLIR's bindings.
LEAVES = {
    "_mlir",
    "attention_routes",
    "choices",
    "convolution_layouts",
    "errors",
    "huge_pages",
    "long_division",
    "size_facts",
    "size_rules",
    "options",
    "own_ops",
    "product_kinds",
    "cache",
    "progress",
    "quantities",
    "runtime",
    "sizes",
    "targets",
    "torch_library",
    "trusted_files",
}

#: Folder → what it may import of cuesta, beside itself.
MAY_IMPORT = {
    "dialects": LEAVES,
    "passes": LEAVES | {"dialects"},
    "lowering": LEAVES | {"dialects"},
    **dict.fromkeys(LEAVES, LEAVES),
}

#: A lowering enters its passes under a name like any pass; and load_all() imports whatever has passes.
EXCEPTIONS = {("lowering", "cuesta.passes.infra.registry"), ("passes/__init__.py", "cuesta.lowering")}


def modules() -> list[Path]:
    """Every module, once: by its real folder, not by the link in cuesta/."""
    found = [path for path in (ROOT / "cuesta").rglob("*.py") if not any(p.is_symlink() for p in path.parents)]
    for folder in FOLDERS:
        found += (ROOT / folder).rglob("*.py")
    return sorted(found)


def home(path: Path) -> str:
    """The folder or leaf module that a file belongs to, as MAY_IMPORT names it."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "cuesta" else parts[0]


def imports(path: Path) -> set[str]:
    """The absolute names that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


MODULES = modules()
IDS = [str(path.relative_to(ROOT)) for path in MODULES]


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_import_directions(path: Path) -> None:
    own, where = home(path), path.relative_to(ROOT).as_posix()
    allowed = MAY_IMPORT.get(own)  # None: anything
    for name in imports(path):
        assert name.partition(".")[0] not in FOLDERS, f"import it as cuesta.{name}"
        if name.startswith("torch_mlir"):
            assert own == "_mlir", "MLIR's bindings are named in cuesta/_mlir.py alone"
        if allowed is not None and name.startswith("cuesta."):
            target = name.split(".")[1]
            excepted = any(where.startswith(o) and name.startswith(prefix) for o, prefix in EXCEPTIONS)
            assert target == own or target in allowed or excepted, f"{own} may not import {name}"


@pytest.mark.parametrize("path", MODULES, ids=IDS)
def test_names_and_length(path: Path) -> None:
    assert path.stem not in NAMELESS, "a thing without a home shows a missing module"
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


def test_links() -> None:
    for folder in FOLDERS:
        link = ROOT / "cuesta" / folder
        assert link.is_symlink()
        assert os.readlink(link) == f"../{folder}"  # relative: it must hold in every clone
        assert (link / "__init__.py").is_file()


def test_every_package_has_an_init() -> None:
    missing = {path.parent for path in MODULES if not (path.parent / "__init__.py").exists()}
    assert not missing
