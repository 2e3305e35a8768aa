"""CUESTA_DUMP: every stage of every graph, in files that cuesta-opt reads back, with an index."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass, field
from pathlib import Path

from cuesta._mlir import ir
from cuesta.compile_report import GraphReport

_NUMBERS = itertools.count()


@dataclass
class Dump:
    """The dump of one graph: a folder `NNN_kind_pid` with a numbered file a stage."""

    folder: Path
    files: list[str] = field(default_factory=list)

    @staticmethod
    def open(root: Path, kind: str) -> Dump:
        """A fresh folder for a graph below `root`.

        Raises OSError, naming the folder, where it cannot be made.
        """
        folder = root / f"{next(_NUMBERS):03d}_{kind}_{os.getpid()}"
        folder.mkdir(parents=True, exist_ok=True)
        return Dump(folder)

    def write(self, stage: str, module: ir.Module) -> Path:
        """Writes the module as it is after `stage`, locations included."""
        path = self.folder / f"{len(self.files):02d}_{stage}.mlir"
        path.write_text(module.operation.get_asm(enable_debug_info=True))
        self.files.append(path.name)
        return path

    def finish(self, report: GraphReport) -> None:
        """Writes the graph's report and adds the graph to the root's index."""
        (self.folder / "report.txt").write_text("\n".join(report.lines()) + "\n")
        index = self.folder.parent / "index.md"
        if not index.exists():
            index.write_text(
                "# Graphs that cuesta compiled\n\n"
                "Each folder holds a file a stage. Go on from one of them with, for example,\n"
                "`cuesta-opt --from linalg --to loops FOLDER/02_linalg.mlir`.\n\n"
            )
        with index.open("a") as out:
            links = ", ".join(f"[{name}]({self.folder.name}/{name})" for name in (*self.files, "report.txt"))
            out.write(f"- **{self.folder.name}** {report.name}: {links}\n")
