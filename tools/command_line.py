"""Reads arguments and files, and writes to stdout, for the tools that process modules."""

from __future__ import annotations

import argparse
import linecache
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cuesta.errors import CuestaError, OptionError
from cuesta.passes.infra.diagnostics import Diagnostic

SPLIT_MARKER = "// -----"
_BYTECODE_MAGIC = b"ML\xefR"


def write_to_stdout(text: str) -> None:
    """Prints `text`. Raises CuestaError for a full disk, BrokenPipeError if the reader (head, less) is gone."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        # Redirect stdout: flushing the rest of its buffer would fail again when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if isinstance(error, BrokenPipeError):
            raise
        raise CuestaError(f"cannot write to stdout: {error.strerror}") from None


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that raises OptionError instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        raise OptionError(f"{message} ({self.prog} --help lists the options)")


@dataclass(frozen=True)
class Source:
    """A module as text or bytecode, and the name that its diagnostics carry."""

    name: str
    text: str | bytes  # bytes: MLIR bytecode

    @staticmethod
    def read(path: str) -> Source:
        """Reads a file, or stdin for "-". Raises CuestaError if it cannot be read, or is neither text nor bytecode."""
        name = "<stdin>" if path == "-" else path
        try:
            data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        except OSError as error:
            raise CuestaError(f"cannot read {name}: {error.strerror}") from None
        if not data:
            # MLIR would parse an empty module. An empty file is more likely truncated, or its pipe's writer failed.
            raise CuestaError(f"{name} is empty")
        if data.startswith(_BYTECODE_MAGIC):
            return Source(name, data)
        try:
            text = data.decode()
            offset = data.find(b"\0")  # MLIR parses NUL as white space, and a file of zeros as an empty module
        except UnicodeDecodeError as error:
            offset = error.start
        if offset >= 0:
            raise CuestaError(f"{name} is neither MLIR text nor bytecode: byte {data[offset]:#04x} at offset {offset}")
        return Source(name, text)

    def chunks(self, split: bool) -> list[tuple[int, str | bytes]]:
        """The (number of the first line, text) of each part between `// -----` lines."""
        if not split or isinstance(self.text, bytes):
            return [(1, self.text)]
        chunks: list[tuple[int, str | bytes]] = []
        first, lines = 1, self.text.split("\n")
        for number, line in enumerate([*lines, SPLIT_MARKER], start=1):
            if line.startswith(SPLIT_MARKER):
                chunks.append((first, "\n".join(lines[first - 1 : number - 1])))
                first = number + 1
        return chunks

    def line(self, diagnostic: Diagnostic) -> str:
        """The source line at a diagnostic's location, or "" if it cannot be read."""
        if diagnostic.file != self.name:
            return linecache.getline(diagnostic.file, diagnostic.line).rstrip("\n")
        lines = self.text.split("\n") if isinstance(self.text, str) else []
        return lines[diagnostic.line - 1] if 0 < diagnostic.line <= len(lines) else ""
