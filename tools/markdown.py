"""Writes parts of Markdown pages that are made from code."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, a line for each row. Cells are Markdown; a pipe in a cell is escaped."""
    lines = (head, ["---"] * len(head), *rows)
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |\n" for row in lines)


def code(text: str, language: str = "") -> str:
    """A block of code. Raises ValueError if the text itself ends such a block."""
    if any(line.startswith("```") for line in text.splitlines()):
        raise ValueError("the text has a line that begins with ``` and would end the block")
    return f"```{language}\n{text.rstrip()}\n```\n"


def prose(docstring: str) -> str:
    """A docstring as Markdown. Paragraphs that are code or pictures of code, which are indented or have columns, become
    blocks of code; lists get the blank line that Markdown wants before them."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(code(textwrap.dedent(p), "text") if _has_columns(p) else _with_lists(p) for p in paragraphs)


def _has_columns(paragraph: str) -> bool:
    lines = paragraph.splitlines()
    return all(line.startswith("    ") for line in lines) or any("  " in line.strip() for line in lines)


def _with_lists(paragraph: str) -> str:
    lines = paragraph.splitlines()
    begins = next((i for i, line in enumerate(lines) if line.startswith("- ")), 0)
    return _escaped("\n".join([*lines[:begins], *([""] if begins else []), *lines[begins:]]))


def _escaped(text: str) -> str:
    """The text with what would be markup escaped, but for code in backticks: docstrings use no other markup."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\[\]*_<])", r"\\\1", part) for part in parts)
