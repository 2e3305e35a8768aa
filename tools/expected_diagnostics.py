"""Checks diagnostics against the `expected-…` comments of a test, as `mlir-opt --verify-diagnostics` does.

    // expected-error@+1 {{no op named}}         also -warning, -remark, -note
    // expected-error@-2 {{…}}  @above {{…}}  @below {{…}}      and no @: this line; @unknown: no location

`{{…}}` is a substring of the message; `expected-error-re` makes it a regular expression. An unexpected note
is no mismatch, because MLIR attaches "see current operation" to most errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from cuesta.passes.infra.diagnostics import Diagnostic

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?\s*"
    r"(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<message>.*?)\}\}"
)


@dataclass(frozen=True)
class Expectation:
    severity: str
    message: str
    is_regex: bool
    line: int  # expected line of the diagnostic, from 1; 0: no known location
    written_at: int  # line of the comment

    def accepts(self, diagnostic: Diagnostic) -> bool:
        if diagnostic.severity != self.severity or diagnostic.line != self.line:
            return False
        if self.is_regex:
            return re.search(self.message, diagnostic.message) is not None
        return self.message in diagnostic.message


def read_expectations(text: str, first_line: int = 1) -> list[Expectation]:
    """The expectations in `text`, whose first line is line `first_line` of its file."""
    lines = text.split("\n")
    holds_one = [_EXPECTED.search(line) is not None for line in lines]
    found = []
    for index, line in enumerate(lines):
        for match in _EXPECTED.finditer(line):
            target = _target(index, match["where"], holds_one)
            number = 0 if target is None else first_line + target
            found.append(
                Expectation(match["severity"], match["message"], bool(match["regex"]), number, first_line + index)
            )
    return found


def _target(index: int, where: str | None, holds_one: list[bool]) -> int | None:
    """Index of the line that `@where` on line `index` refers to; None for @unknown."""
    if where is None:
        return index
    if where == "unknown":
        return None
    if where in ("above", "below"):  # expectations may be stacked: skip to a line without one
        step = -1 if where == "above" else 1
        index += step
        while 0 <= index < len(holds_one) and holds_one[index]:
            index += step
        return index
    return index + int(where)


def mismatches(file: str, expectations: list[Expectation], diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """One error for each unexpected diagnostic, and one for each expectation that no diagnostic met."""
    open_expectations = list(expectations)
    wrong = []
    for diagnostic in _flatten(diagnostics):
        met = next((e for e in open_expectations if e.accepts(diagnostic)), None)
        if met is not None:
            open_expectations.remove(met)
        elif diagnostic.severity != "note":
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            wrong.append(Diagnostic("error", message, diagnostic.file, diagnostic.line, diagnostic.col))
    for expectation in open_expectations:
        message = f'expected {expectation.severity} "{expectation.message}" was not produced'
        wrong.append(Diagnostic("error", message, file, expectation.written_at, 1))
    return wrong


def _flatten(diagnostics: list[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flatten(list(diagnostic.notes))
