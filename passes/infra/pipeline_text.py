"""Parses pipeline text, whose grammar is upstream's:

    pipeline := anchor "(" list ")"        list := item ("," item)*
    item     := pass-name options?  |  anchor "(" list ")"
    options  := "{" text, braces and quotes balanced "}"

Only the syntax is checked here; pipeline.py checks which names exist.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cuesta.errors import PipelineError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")


@dataclass(frozen=True)
class Item:
    """A pass (`children` is None) or an anchor with the items nested in it."""

    name: str
    position: int  # of the name's first character in the pipeline text, from 0
    options: str = ""  # the text between the braces, unchanged
    children: tuple[Item, ...] | None = None

    def __str__(self) -> str:
        if self.children is not None:
            return f"{self.name}({','.join(map(str, self.children))})"
        return f"{self.name}{{{self.options}}}" if self.options else self.name


def error_at(text: str, position: int, message: str) -> PipelineError:
    """An error that shows the pipeline with a caret under `position` (a long text is cut around it)."""
    line_start = text.rfind("\n", 0, position) + 1
    line_end = text.find("\n", position)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = position - line_start
    first = max(0, column - 60)
    cut = "…" if len(line) > column + 60 else ""
    shown = ("…" if first else "") + line[first : column + 60].replace("\t", " ") + cut
    caret = " " * (column - first + bool(first)) + "^"
    return PipelineError(f"pipeline, position {position + 1}: {message}\n  {shown}\n  {caret}")


def parse_text(text: str) -> Item:
    """Parses one pipeline. Raises PipelineError, with the position, for text that the grammar does not allow."""
    reader = _Reader(text)
    root = reader.item()
    if root.children is None:
        raise error_at(text, root.position, f"a pipeline is wrapped in its anchor: builtin.module({root})")
    reader.expect_end()
    return root


def split_options(options: str) -> dict[str, str]:
    """`limit=4 verbose only={a b}` → {"limit": "4", "verbose": "true", "only": "a b"}.

    Raises ValueError, which names the key, for a key that is given twice.
    """
    found: dict[str, str] = {}
    for word in _split_words(options):
        key, equals, value = word.partition("=")
        if key in found:
            raise ValueError(f"option {key!r} is given twice")
        if value[:1] + value[-1:] in ("{}", '""', "''") and len(value) > 1:
            value = value[1:-1]
        found[key] = value if equals else "true"
    return found


def _split_words(options: str) -> list[str]:
    words, word, depth, quote = [], "", 0, ""
    for char in options:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "{}":
            depth += 1 if char == "{" else -1
        elif char.isspace() and depth == 0:
            words.append(word)
            word = ""
            continue
        word += char
    return [w for w in [*words, word] if w]


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip_space()
        return self.text[self.at : self.at + 1]

    def fail(self, wanted: str) -> PipelineError:
        char = self.peek()
        return error_at(self.text, self.at, f"expected {wanted}, found {repr(char) if char else 'the end'}")

    def item(self) -> Item:
        self.skip_space()
        match = _NAME.match(self.text, self.at)
        if match is None:
            raise self.fail("the name of a pass")
        self.at = match.end()
        if self.peek() == "(":
            return Item(match[0], match.start(), children=self.children())
        options = self.options() if self.peek() == "{" else ""
        return Item(match[0], match.start(), options)

    def children(self) -> tuple[Item, ...]:
        self.at += 1
        if self.peek() == ")":
            self.at += 1
            return ()
        items = [self.item()]
        while self.peek() == ",":
            self.at += 1
            items.append(self.item())
        if self.peek() != ")":
            raise self.fail("',' or ')'")
        self.at += 1
        return tuple(items)

    def options(self) -> str:
        start, depth, quote = self.at, 0, ""
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if quote:
                quote = "" if char == quote else quote
            elif char in "\"'":
                quote = char
            elif char in "{}":
                depth += 1 if char == "{" else -1
            if depth == 0:
                return self.text[start + 1 : self.at - 1].strip()
        raise error_at(self.text, start, "this '{' is never closed")

    def expect_end(self) -> None:
        if self.peek():
            raise self.fail("the end of the pipeline")
