"""Writes every stage of every graph (CUESTA_DUMP) into files that cuesta-opt reads back, with an index.

    ir/index.md
    ir/001_inference_4711/aten.py 00_import.mlir 01_graph.mlir … machine_code.o report.txt kernels/NAME.mlir graph.svg

A folder that cannot be written stops the dump of a graph, never the compile: `failure` says why, and one warning is
logged for a folder.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cuesta._mlir import ir
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.reports.compile_report import GraphReport

_log = logging.getLogger("cuesta.dump")
_NUMBERS = itertools.count()
_WARNED: set[Path] = set()  # roots for which a warning was logged
_INDEX = """# Graphs that cuesta compiled

Each folder holds a file a stage. Go on from one of them with, for example,
`cuesta-opt --from linalg --to loops FOLDER/02_linalg.mlir`.

"""


@dataclass
class Dump:
    """The dump of one graph: a folder `NNN_kind_pid` with one numbered file per stage."""

    folder: Path
    files: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    """What lies beside the stages: kernels, machine code, a picture."""
    failure: str | None = None
    """Why the dump stopped, where it did."""

    @staticmethod
    def open(root: Path, kind: str) -> Dump:
        """Creates a new folder for a graph below `root`."""
        dump = Dump(root / f"{next(_NUMBERS):03d}_{kind}_{os.getpid()}")
        with dump._writing():
            dump.folder.mkdir(parents=True, exist_ok=True)
        return dump

    def write(self, stage: str, module: ir.Module) -> None:
        """Writes the module as it is after `stage`, locations included."""
        if self.failure is None:
            self.write_text(stage, module.operation.get_asm(enable_debug_info=True))

    def write_text(self, name: str, text: str) -> Path | None:
        """Writes the text of a module into the next file. Returns None if the dump has stopped."""
        path = self.folder / f"{len(self.files):02d}_{name}.mlir"
        if self.failure is None:
            with self._writing():
                _write_whole(path, text)
                self.files.append(path.name)
                return path
        return None

    def write_beside(self, name: str, content: str | bytes) -> None:
        """Writes a file that is no stage. `name` is the whole name, and may contain one subfolder."""
        path = self.folder / name
        if self.failure is None:
            with self._writing():
                path.parent.mkdir(exist_ok=True)
                _write_whole(path, content)
                self.beside.append(name)

    def finish(self, lines: Iterable[str]) -> None:
        """Writes the lines of the graph's report and adds the graph to the root's index."""
        if self.failure is not None:
            return
        report = "\n".join(lines) + "\n"
        names = [*self.files, *(n for n in self.beside if "/" not in n), "report.txt"]
        links = ", ".join(f"[{name}]({self.folder.name}/{name})" for name in names)
        index = self.folder.parent / "index.md"
        with self._writing():
            _write_whole(self.folder / "report.txt", report)
            # Processes may share the index, so it is only created if missing.
            with contextlib.suppress(FileExistsError), index.open("x") as out:
                out.write(_INDEX)
            with index.open("a") as out:
                out.write(f"- **{self.folder.name}** {report.partition(chr(10))[0]}: {links}\n")

    def outcome(self) -> str:
        """The dump's folder, or why the dump is incomplete; for the report."""
        return str(self.folder) if self.failure is None else f"{self.folder} is incomplete: {self.failure}"

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A context in which an error of the disk stops the dump."""
        try:
            yield
        except OSError as error:
            self.failure = str(error)
            _warn(self.folder.parent, error)


def write_graph(root: Path, stage: str, text: str) -> None:
    """Writes an FX graph, as Python code, into a file `NNN_stage_pid.py` below `root`."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        _write_whole(root / f"{next(_NUMBERS):03d}_{stage}_{os.getpid()}.py", text)
    except OSError as error:
        _warn(root, error)


def write_kernels_and_picture(dump: Dump, module: ir.Module, report: GraphReport, picture: bool) -> None:
    """Writes `kernels/NAME.mlir` for each kernel of a module at stage kernels, and graph.svg where asked for."""
    for kernels in kernel_modules(module):
        for view in kernels.body.operations:
            op = view.operation
            if "sym_name" in op.attributes:
                text = op.get_asm(enable_debug_info=True)
                dump.write_beside(f"kernels/{op.attributes['sym_name'].value}.mlir", f"{text}\n")
    if picture:
        from cuesta.driver.dump.picture import draw

        dump.write_beside("graph.svg", draw(module, next(report.lines())))


def _warn(root: Path, error: OSError) -> None:
    if root not in _WARNED:
        _WARNED.add(root)
        _log.warning("the dump is incomplete: %s cannot be written: %s", root, error)


def _write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file. If the disk is full, removes the partial file, which would read as a broken module."""
    try:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink()
        raise
