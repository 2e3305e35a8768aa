"""The code on the pages: Python for users runs, other Python parses, and commands name options that exist.

A page is one session: its blocks run in order, in one namespace. A block behind the comment `<!-- not run: why -->` is
only parsed.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sybil import Document, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from cuesta import cache_artifacts
from cuesta.tools.docs_site.commands_page import commands, help_of

ROOT = Path(__file__).parents[2]
PAGES = {
    str(path.relative_to(ROOT)): path
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    if "```" in path.read_text()
}
#: Pages whose Python a user types in as it stands. On other pages, blocks are parts of files.
SESSIONS = [name for name in PAGES if name in ("README.md", "docs/index.md", "docs/start.md") or "/guide/" in name]
_NOT_RUN = re.compile(r"<!-- not run: \S.*-->\n\s*$")


@pytest.mark.parametrize("name", SESSIONS)
def test_the_blocks_run_in_order(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # What a page loads as artifacts would take precedence over the cache's files in all tests that follow.
    monkeypatch.setattr(cache_artifacts, "_LOADED", {})
    torch._dynamo.reset()
    document = Sybil(parsers=[PythonCodeBlockParser()]).parse(PAGES[name])
    run = [example for example in document.examples() if not _NOT_RUN.search(document.text[: example.start])]
    for example in run:
        example.evaluate()
    assert len(run) > 0 or "```python" not in document.text
    torch._dynamo.reset()


#: torch prints a graph as a class that is named <lambda>, and docs/walk.md shows that; a test of its own renews it.
_PRINTED_BY_TORCH = "docs/walk.md"


@pytest.mark.parametrize("name", sorted({*PAGES} - {*SESSIONS, _PRINTED_BY_TORCH}))
def test_python_parses(name: str) -> None:
    for block in _blocks(PAGES[name], "python"):
        try:
            ast.parse(textwrap.dedent(block).replace("…", "..."))
        except SyntaxError as error:
            raise AssertionError(f"{name}: {error}\n{block}") from error


def _blocks(path: Path, language: str) -> Iterator[str]:
    found: list[str] = []
    parser = CodeBlockParser(language, evaluator=lambda example: found.append(str(example.parsed)))
    for example in Document.parse(str(path), parser).examples():
        example.evaluate()
    yield from found


@pytest.mark.parametrize("name", sorted(PAGES))
def test_commands_have_the_options_they_are_given(name: str) -> None:
    for line in re.findall(r"^(?:\w+=\S+ )*(cuesta-[a-z]+ .*)$", PAGES[name].read_text(), re.MULTILINE):
        command, *words = line.partition("  ")[0].split()
        known = help_of(command) if command in commands() else ""
        assert known, f"{name}: there is no command {command}"
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            assert re.search(rf"{option}\b", known), f"{name}: {command} has no {option}"


@pytest.mark.parametrize("name", sorted(PAGES))
def test_make_has_the_targets_that_are_named(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", PAGES[name].read_text(), re.MULTILINE))
    assert named <= targets, f"{name}: make has no target {', '.join(sorted(named - targets))}"
