"""Holds the result of `cuesta.audit`, as text and as data."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cuesta.reports.compile_report import GraphReport
from cuesta.reports.quantities import count_text, size_text


@dataclass(frozen=True)
class GraphBreak:
    """A place where Dynamo ends a graph and returns to Python."""

    #: "file:line" of the Python that breaks the graph, "" where Dynamo names none
    where: str
    #: the text of that line
    line: str
    #: the first sentence of Dynamo's reason
    reason: str
    #: the rest of Dynamo's reason: explanation and hints
    details: str

    @staticmethod
    def of(reason: str, frame: traceback.FrameSummary | None) -> GraphBreak:
        """A break from Dynamo's text and the user's frame that it names."""
        first, _, details = reason.partition("\n")
        if first.startswith("generic_jump"):  # Dynamo's only text for an `if` or `while`
            first = f"the value of a tensor decides which way Python goes ({first})"
        where = f"{frame.filename}:{frame.lineno}" if frame is not None else ""
        return GraphBreak(where, (frame.line or "") if frame is not None else "", first, details.strip())


@dataclass(frozen=True)
class AuditedGraph:
    """A graph that would be compiled. `report` is that of `cuesta.report()`, without times and cache."""

    report: GraphReport
    #: calls of ATen ops and of custom ops in the functional graph, views included
    ops: int
    #: bytes of the arguments: parameters, buffers and inputs, or what the forward graph saved; arguments whose sizes
    #: the data decide count 0
    argument_bytes: int

    @property
    def calls(self) -> int:
        """How often ATen is called."""
        return sum(call["count"] for call in self.report.aten_calls)

    def as_dict(self) -> dict[str, Any]:
        kept = self.report.program()
        more = {"kind": self.report.name, "ops": self.ops, "argument_bytes": self.argument_bytes}
        return more | kept | {"fallback": self.report.fallback}

    def lines(self, number: int) -> Iterator[str]:
        report = self.report
        yield f"graph {number}, {report.name}: {count_text(self.ops, 'op')}"
        if report.fallback:
            is_sized = report.fallback.startswith("compiled")
            yield f"  {report.fallback}" if is_sized else f"  runs op by op in Python: {report.fallback}"
            return
        kernels, calls = count_text(len(report.kernels), "kernel"), count_text(self.calls, "call")
        yield f"  compiled into {kernels}, {count_text(report.launches, 'launch', 'launches')}; {calls} into ATen"
        arena, peak = size_text(report.arena_bytes), size_text(report.peak_bytes)
        yield f"  memory: arguments {size_text(self.argument_bytes)}, other buffers at most {peak} (arena: {arena})"
        if report.kernels:
            rows = [[k["name"], f"x{k['uses']}", size_text(k["bytes"]), " + ".join(k["ops"])] for k in report.kernels]
            yield from _table(["kernel", "launches", "memory of each", "fuses"], rows)
        if report.aten_calls:
            rows = [[c["op"], f"x{c['count']}", c["route"], _short(c["where"]), c["reason"]] for c in report.aten_calls]
            yield from _table(["called in ATen", "calls", "route", "first at", "why"], rows)


@dataclass(frozen=True)
class Audit:
    """The result of an audit of a model; `print` shows it, `as_dict` returns it as data."""

    name: str
    graphs: list[AuditedGraph]
    breaks: list[GraphBreak]
    #: whether the model ran on copies, because its Python needs values
    computed: bool

    def as_dict(self) -> dict[str, Any]:
        """The audit as plain data; sizes in bytes."""
        return {
            "model": self.name,
            "graphs": [graph.as_dict() for graph in self.graphs],
            "breaks": [asdict(found) for found in self.breaks],
            "computed": self.computed,
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.name}: {count_text(len(self.graphs), 'graph')}, {count_text(len(self.breaks), 'graph break')}"
        if not self.graphs:
            yield "  nothing to compile: Dynamo found no tensor ops"
        for number, graph in enumerate(self.graphs):
            yield ""
            yield from graph.lines(number)
        for found in self.breaks:
            yield ""
            yield f"graph break at {found.where or 'an unknown line'}: {found.line}"
            yield f"  {found.reason}"
            yield from (f"  {line.strip()}" for line in found.details.splitlines() if line.strip())
        if self.computed:
            yield ""
            yield "The model's Python asks for values of tensors, so it was run once in eager, on copies."


def _short(where: str) -> str:
    """A place in an installed package, without the path of site-packages."""
    return where.rpartition("/site-packages/")[2]


def _table(head: list[str], rows: list[list[str]]) -> Iterator[str]:
    """A table as lines; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, ["-" * width for width in widths[:-1]] + ["-" * len(head[-1])], *rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        yield ("    " + "  ".join(cells)).rstrip()
