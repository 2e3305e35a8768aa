"""Copies MLIR diagnostics to plain data, so that errors, tools and tests can keep them longer than their context."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

# The first "file":line:col of a location text; fused, named and call-site locations contain several.
_FILE_LINE_COL = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')


@dataclass(frozen=True)
class Diagnostic:
    """One message with its place. `line` and `col` count from 1 and are 0 where the place is unknown."""

    severity: str  # "error", "warning", "remark" or "note"
    message: str
    file: str = ""
    line: int = 0
    col: int = 0
    notes: tuple[Diagnostic, ...] = ()

    @staticmethod
    def from_mlir(info: Any) -> Diagnostic:
        """Copies an `ir.Diagnostic` (in a handler) or an `ir.DiagnosticInfo` (of an MLIRError)."""
        notes = tuple(Diagnostic.from_mlir(note) for note in info.notes)
        return Diagnostic.at(str(info.location), info.severity.name.lower(), str(info.message), notes)

    @staticmethod
    def at(location: str, severity: str, message: str, notes: tuple[Diagnostic, ...] = ()) -> Diagnostic:
        """A diagnostic at the first place that `location`, the text of an `ir.Location`, names."""
        place = _FILE_LINE_COL.search(location)
        if place is None or place[2] == "0":  # "-":0:0 is how the parser spells "nowhere"
            return Diagnostic(severity, message, notes=notes)
        return Diagnostic(severity, message, place[1], int(place[2]), int(place[3]), notes)

    def renamed(self, old: str, new: str) -> Diagnostic:
        """The same diagnostic with the file `old` called `new`, in its notes as well."""
        notes = tuple(note.renamed(old, new) for note in self.notes)
        return replace(self, file=new if self.file == old else self.file, notes=notes)

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.col}: " if self.line else ""
        return "\n".join([f"{place}{self.severity}: {self.message}", *(f"  {note}" for note in self.notes)])
