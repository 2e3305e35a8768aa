"""Collects every page of the site that is not a file of docs/."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from cuesta.tools.docs_site.api_page import api_page
from cuesta.tools.docs_site.commands_page import commands_page
from cuesta.tools.docs_site.ops_page import ops_page
from cuesta.tools.docs_site.passes_page import passes_page
from cuesta.tools.docs_site.stages_page import stages_page
from cuesta.tools.markdown import code, table

ROOT = Path(__file__).resolve().parents[2]

#: Files beside docs/ that have a page, and the page. What is in examples/ has pages, too.
_FILES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
_EXAMPLES = {f"examples/{p.name}": f"examples/{p.stem}.md" for p in sorted((ROOT / "examples").glob("*.py"))}

#: Path beside docs/ → its page on the site.
OUTSIDE = {
    **_FILES,
    **_EXAMPLES,
    "examples": "examples/index.md",
    "LICENSE": "license.md",
    "README.md": "index.md",
}


def generated_pages() -> dict[str, str]:
    """Path within the site → the page's Markdown."""
    return {
        **{page: _as_page((ROOT / name).read_text()) for name, page in _FILES.items()},
        **example_pages(),
        "examples/index.md": _examples(),
        "license.md": f"# Licence\n\n{code((ROOT / 'LICENSE').read_text(), 'text')}",
        "reference/api.md": api_page(),
        "reference/commands.md": commands_page(),
        "reference/ops.md": ops_page(),
        "reference/passes.md": passes_page(),
        "reference/stages.md": stages_page(),
    }


def example_pages() -> dict[str, str]:
    """A page for each program in examples/: what it shows, and its code."""
    return {page: _example(ROOT / name) for name, page in _EXAMPLES.items()}


def decisions() -> dict[str, str]:
    """The page of each decision, within decisions/ → its title."""
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    return {page.name: page.read_text().partition("\n")[0].removeprefix("# ") for page in pages}


def _example(path: Path) -> str:
    return f"# {path.name}\n\n{_about(path)}\n\n{code(path.read_text(), 'python')}"


def _examples() -> str:
    rows = [[f"[{Path(n).name}]({Path(p).name})", _first_sentence(ROOT / n)] for n, p in _EXAMPLES.items()]
    text = "Programs to begin with. Each compares itself with eager, and the tests run them."
    return f"# Examples\n\n{text}\n\n{table(['program', 'what it shows'], rows)}"


def _about(path: Path) -> str:
    """A program's docstring."""
    about = ast.get_docstring(ast.parse(path.read_text()))
    if not about:
        raise ValueError(f"{path} has no docstring, which says on the site what the program shows")
    return about


def _first_sentence(path: Path) -> str:
    return re.split(r"(?<=\.)\s", " ".join(_about(path).split()), maxsplit=1)[0]


def _as_page(text: str) -> str:
    """A file beside docs/ as a page of the site: its links become links within the site."""
    return re.sub(r"\]\(([^)#:]+)", lambda found: "](" + OUTSIDE.get(found[1], found[1].removeprefix("docs/")), text)
