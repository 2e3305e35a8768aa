"""Places boxes and edges: a box's row is its longest distance from the beginning, and the order within a row follows
the mean position of its neighbours (the barycentre method of Sugiyama, Tagawa and Toda, 1981).

An edge over several rows gets a point in each, so that it leads around boxes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from cuesta.driver.dump.picture.steps import Repeat, Step, Steps, results_text

LINE = 15.0  # height of a line of text
FONT = 6.7  # width of a letter
OP_GAP = 6.0
_PADDING = 10.0
_COLUMN_GAP = 34.0
_ROW_GAP = 44.0
_FRAME = 26.0
_BEND = 10.0  # width that an edge takes in a row that it crosses
_MARGIN = 40.0
_SWEEPS = 8


@dataclass
class Box:
    """A step, or a bend of an edge if `step` is None. x and y are the upper left corner."""

    step: Step | None
    row: int
    width: float
    height: float
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class Edge:
    """The boxes that an edge goes through, first to last, and the text of its value."""

    path: tuple[Box, ...]
    text: str


@dataclass
class Frame:
    """The frame around the boxes of a repeated run."""

    count: int
    boxes: list[Box] = field(default_factory=list)


@dataclass
class Picture:
    boxes: list[Box]
    edges: list[Edge]
    frames: list[Frame]
    width: float
    height: float


def place(program: Steps) -> Picture:
    """Coordinates for every box and edge."""
    rows_of = _rows(program)
    boxes = [Box(step, row, *_box_size(step)) for step, row in zip(program.steps, rows_of, strict=True)]
    rows: list[list[Box]] = [[] for _ in range(max(rows_of, default=-1) + 1)]
    for box in boxes:
        rows[box.row].append(box)
    edges = []
    for target, step in enumerate(program.steps):
        for source, text in step.sources:
            bends = [Box(None, row, _BEND, 0.0) for row in range(rows_of[source] + 1, rows_of[target])]
            for bend in bends:
                rows[bend.row].append(bend)
            edges.append(Edge((boxes[source], *bends, boxes[target]), text))
    _set_columns(rows, edges)
    height = _set_heights(rows, program.repeats, rows_of)
    frames = [Frame(r.count, boxes[r.first : r.last + 1]) for r in program.repeats]
    every = [box for row in rows for box in row]
    left = min((box.x for box in every), default=0.0) - _MARGIN - _FRAME
    for box in every:
        box.x -= left
    width = max((box.x + box.width for box in every), default=0.0) + _MARGIN + _FRAME
    return Picture(boxes, edges, frames, width, height)


def _rows(program: Steps) -> list[int]:
    """The row of each step. Repeated steps share no row with others, so that a frame holds nothing else."""
    first_of = {repeat.first for repeat in program.repeats}
    ends = {repeat.last for repeat in program.repeats}
    rows: list[int] = []
    floor = 0
    for number, step in enumerate(program.steps):
        if number in first_of:
            floor = max(rows, default=-1) + 1
        rows.append(max([floor, *(rows[source] + 1 for source, _ in step.sources)]))
        if number in ends:
            floor = max(rows) + 1
    # A step without sources is placed right above its first reader, not at the top.
    readers: dict[int, list[int]] = {}
    for number, step in enumerate(program.steps):
        for source, _ in step.sources:
            readers.setdefault(source, []).append(number)
    framed = {n for repeat in program.repeats for n in range(repeat.first, repeat.last + 1)}
    for number in reversed(range(len(rows))):
        if not program.steps[number].sources and readers.get(number) and number not in framed:
            nearest = min(rows[reader] for reader in readers[number]) - 1
            walls = [rows[r.first] - 1 for r in program.repeats if r.first > number]
            rows[number] = max(rows[number], min([nearest, *walls]))
    return rows


def _box_size(step: Step) -> tuple[float, float]:
    texts = [step.name, *step.arguments, *notes(step)]
    ops = [sum(len(op) * FONT + 2 * OP_GAP for op in row) + OP_GAP * (len(row) - 1) for row in op_rows(step)]
    width = max([len(text) * FONT for text in texts] + ops) + 2 * _PADDING
    lines = len(texts)
    return width, lines * LINE + len(ops) * (LINE + OP_GAP + 4) + _PADDING


def notes(step: Step) -> list[str]:
    """The coloured lines at the bottom of a box."""
    counted = [f"runs {step.count} times"] if step.count > 1 else []
    return counted + ([results_text(step)] if step.results else [])


def op_rows(step: Step) -> list[list[str]]:
    """The ops of a kernel in rows about as wide as its name, at least 36 letters."""
    limit = max(36, len(step.name))
    rows: list[list[str]] = []
    for op in step.ops:
        if rows and sum(map(len, rows[-1])) + len(op) + 3 * len(rows[-1]) <= limit:
            rows[-1].append(op)
        else:
            rows.append([op])
    return rows


def _set_columns(rows: list[list[Box]], edges: list[Edge]) -> None:
    above: dict[int, list[Box]] = {}
    below: dict[int, list[Box]] = {}
    for edge in edges:
        for upper, lower in pairwise(edge.path):
            above.setdefault(id(lower), []).append(upper)
            below.setdefault(id(upper), []).append(lower)
    for row in rows:
        _spread(row)
    for sweep in range(_SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            wanted = {
                id(box): statistics.fmean(n.middle for n in near) for box in row if (near := neighbours.get(id(box)))
            }
            # Boxes without neighbours come last, in their previous order.
            row.sort(key=lambda box: wanted.get(id(box), math.inf))
            _spread(row, wanted)


def _spread(row: list[Box], wanted: Mapping[int, float] = MappingProxyType({})) -> None:
    """Places a row's boxes in order without overlap, near their wanted positions: first each to the right of its
    neighbour, then the whole row shifted by the mean deviation."""
    right: float | None = None
    for box in row:
        x = wanted[id(box)] - box.width / 2 if id(box) in wanted else right or 0.0
        box.x = x if right is None else max(x, right)
        right = box.x + box.width + _COLUMN_GAP
    if wanted:
        shift = statistics.fmean(wanted[id(box)] - box.middle for box in row if id(box) in wanted)
        for box in row:
            box.x += shift


def _set_heights(rows: list[list[Box]], repeats: list[Repeat], rows_of: list[int]) -> float:
    starts = {rows_of[r.first] for r in repeats}
    ends = {max(rows_of[r.first : r.last + 1]) for r in repeats}
    y = _MARGIN + 2 * LINE
    for number, row in enumerate(rows):
        y += _FRAME if number in starts else 0.0
        height = max(box.height for box in row)
        for box in row:
            box.height = height if box.step is None else box.height
            box.y = y + height - box.height  # aligned at the bottom, because labels of results follow below
        y += height + _ROW_GAP + (_FRAME if number in ends else 0.0)
    return y
