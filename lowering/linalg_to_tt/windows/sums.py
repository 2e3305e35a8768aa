"""Writes kernels that sum over the places of windows. Each element that a program loads is added to all sums that need
it.

    for each column of a window:                                   one program; unrolled, unless this takes many loads
        for each row of x that windows of the block's rows reach:
            load x[row, columns of the block + column of the window, channels]
            add it, times the weight of its place, to each row of sums whose window has it
    store(gelu(sums + bias)) for each row

So the sums, and one column of weights, stay in registers, and of 3x3 windows four rows load 18 blocks where their sums
have 36 terms. A thread may have neighbouring columns too: each has sums of its own, blocks of every second column. What
is loaded for a place of the first column's windows is that of the place before in the second's, whose weights are those
of the turn before:

    column 0 of the windows, for the first sums;
    for each further column j: load x once, add it to the first sums by the weights of j, to the second by those of j-1
    the last column of the second sums' windows
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, scf
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowedDim
from cuesta.dialects.tt.types import shape_of
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node
from cuesta.lowering.linalg_to_tt.windows.behind import emit_behind, place_one
from cuesta.lowering.linalg_to_tt.windows.images import Images

#: The most loads of an unrolled loop over the columns of a window: Triton's time grows with the loads times the ops.
_UNROLLED = 48


#: Weights of one column of windows, a block for each of its places.
_Column: TypeAlias = "list[Value]"


def write_windows(
    writer: KernelWriter, node: Node, starts: Mapping[int, Value | None], rows: int, neighbours: int
) -> None:
    """Writes a kernel of `node`, a sum over windows, and of the elementwise nodes that read it.

    `starts` says where the program's block starts along each parallel class. The block has `rows` rows, and each thread
    so many neighbouring columns. Each is a value of its own, so the frame has no axis for rows, and one for columns
    that lie `neighbours` apart.
    """
    _Windows(writer, node, rows, neighbours, starts).write()


@dataclass
class _Windows:
    writer: KernelWriter
    node: Node
    rows: int
    neighbours: int
    starts: Mapping[int, Value | None]
    images: Images = field(init=False)
    #: the scalar position of the block's first row
    top: Value = field(init=False)

    def __post_init__(self) -> None:
        (_, (*_, channels)), *_ = self.node.inputs
        self.images = Images(self.writer, self.node, channels)
        frame = self.writer.frame
        for c, start in self.starts.items():
            if c not in (self.down.loop, self.across.loop):
                frame.place(c, start)
        self._place_columns(frame, 0)
        for dim, block in ((self.down, self.rows), (self.across, self.neighbours)):
            if dim.loop >= 0 and block % dim.spread:
                raise Unsupported(
                    f"{block} neighbouring windows, not a multiple of their spread {dim.spread}, at "
                    f"{self.node.op.location}"
                )
        start = self.starts.get(self.down.loop)
        self.top = frame.scalar(0) if start is None else start

    def write(self) -> None:
        sums = self._sums()
        if self.down.loop >= 0:
            for node in self.writer.nodes:
                if not {self.down.loop, *self._split} & {*node.classes}:
                    self.writer.emit(node)
        finished = [self._row(n // self.neighbours, n % self.neighbours, total) for n, total in enumerate(sums)]
        for row in finished:
            row.store_all()

    @property
    def down(self) -> WindowedDim:
        return self.images.down

    @property
    def across(self) -> WindowedDim:
        return self.images.across

    @property
    def _split(self) -> list[int]:
        """The class of columns, if a thread has several."""
        return [self.across.loop] if self.neighbours > 1 else []

    def _place_columns(self, frame: Frame, number: int) -> None:
        """Places the columns of each thread that have this number."""
        c = self.across.loop
        if c in self.starts:
            start = self.starts[c]
            if number:
                start = frame.scalar(number) if start is None else arith.addi(start, frame.scalar(number))
            frame.place(c, start, apart=self.neighbours)

    def _row(self, number: int, column: int, total: Value) -> KernelWriter:
        """A writer of one row, of the columns of one number, which has computed all that follows the sums."""
        row = self.writer.copy()
        if column:
            self._place_columns(row.frame, column)
        c = self.down.loop
        if c >= 0:
            place_one(row.frame, c, arith.addi(self.top, row.frame.scalar(number)), self.rows)
        emit_behind(row, self.node, total)
        # What does not lie along the rows was loaded for all of them.
        own = {c, *self._split}
        self.writer.loaded |= {key: value for key, value in row.loaded.items() if not own & {*key[1]}}
        return row

    def _sums(self) -> list[Value]:
        """The sums, as blocks of columns and channels: of each row, those of each thread's first columns come first."""
        frame = self.writer.frame
        heights, widths = (self.images.places(dim) for dim in (self.down, self.across))
        lines_of = self.down.readers(self.rows, range(heights))
        shape = self.images.shape
        sample = self.images.sample(self._sample())
        top = self.images.top(self.top)
        lines = {offset: self.images.line(sample, top, offset) for offset in sorted(lines_of)}
        kind = self.node.op.results[0].type.element_type
        sums = [tt.full(shape, kind, 0) for _ in range(self.rows * self.neighbours)]
        columns = self.across.readers(self.neighbours, range(widths))
        if self.across.spread > 1 or len(lines) * len(columns) + heights * widths <= _UNROLLED:
            weights = [self._weights(frame.scalar(j)) for j in range(widths)]
            for shift, taken in sorted(columns.items()):
                sums = self._column(frame.scalar(shift), {n: weights[j] for n, j in taken}, lines, lines_of, sums)
            return sums
        return self._looped(widths, lines, lines_of, sums)

    def _looped(
        self,
        widths: int,
        lines: Mapping[int, tuple[Value, Value]],
        lines_of: Mapping[int, Sequence[tuple[int, int]]],
        sums: list[Value],
    ) -> list[Value]:
        """The sums by a loop over the columns of windows. In turn j the first of a thread's columns is at place j of
        its window, the next at j - 1, …, which is why some turns are before the loop, and some behind."""
        frame, others = self.writer.frame, self.neighbours - 1
        # Windows that go backwards meet the last column first.
        order = [*range(self.neighbours)] if self.across.dilation > 0 else [*reversed(range(self.neighbours))]
        first = frame.scalar(order[0])

        def turn(place: Value, taken: Mapping[int, _Column], sums: list[Value]) -> list[Value]:
            shift = arith.muli(place, frame.scalar(self.across.dilation))
            shift = arith.subi(shift, frame.scalar(self.across.padding))
            if order[0]:
                shift = arith.addi(shift, first)
            return self._column(shift, {order[n]: weights for n, weights in taken.items()}, lines, lines_of, sums)

        kept: list[_Column] = []  # the weights of the last places, the latest first
        for j in range(others):
            kept.insert(0, self._weights(place := frame.scalar(j)))
            sums = turn(place, dict(enumerate(kept)), sums)
        values = [*sums, *(w for column in kept for w in column)]
        loop = scf.ForOp(*map(frame.scalar, (others, widths, 1)), values)
        with ir.InsertionPoint(loop.body):
            place, passed = loop.induction_variable, list(loop.inner_iter_args)
            columns = [self._weights(place), *self._columns(passed[len(sums) :])]
            inner = turn(place, dict(enumerate(columns)), passed[: len(sums)])
            scf.YieldOp([*inner, *(w for column in columns[:others] for w in column)])
        results = list(loop.results)
        sums, kept = results[: len(sums)], self._columns(results[len(sums) :])
        for j in range(others):
            taken = {n: kept[n - j - 1] for n in range(j + 1, self.neighbours)}
            sums = turn(frame.scalar(widths + j), taken, sums)
        return sums

    def _columns(self, weights: Sequence[Value]) -> list[_Column]:
        """Weights, column by column."""
        heights = self.images.places(self.down)
        return [list(weights[i : i + heights]) for i in range(0, len(weights), heights)]

    def _weights(self, place: Value) -> _Column:
        """The weights of one column of the windows; `place` is its number."""
        return [stretched(self._weight(k, place), self.images.shape) for k in range(self.images.places(self.down))]

    def _column(
        self,
        shift: Value,
        weights: Mapping[int, _Column],
        lines: Mapping[int, tuple[Value, Value]],
        lines_of: Mapping[int, Sequence[tuple[int, int]]],
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with the terms of one column of x added, `shift` from where the block's windows begin.
        `weights` has those of its place in the windows of a thread's columns, by their numbers."""
        offsets, mask = self.images.offsets(self.writer.frame, shift)
        total = list(sums)
        for offset, line in lines.items():
            element = self.images.load(line, offsets, mask)
            for number, k in lines_of[offset]:
                for column, own in weights.items():
                    i = number * self.neighbours + column
                    total[i] = math.fma(element, own[k], total[i])
        return total

    def _weight(self, k: int, place: Value) -> Value:
        """The channels' weights of one place, in the type of the sums."""
        ((value, classes),) = self.node.inputs
        frame = self.writer.frame
        for dim, number in ((self.down, frame.scalar(k)), (self.across, place)):
            if dim.place >= 0:
                frame.positions[dim.place] = tt.splat(number, frame.unit)
        pointer, mask = self.writer.pointer(value, classes), frame.mask(classes)
        return self.images.wide(tt.load(pointer, None if mask is None else stretched(mask, shape_of(pointer))))

    def _sample(self) -> Value | None:
        """The scalar number of the program's sample; None for the first of all programs."""
        others = {self.images.channels, *(n for dim in (self.down, self.across) for n in (dim.loop, dim.place))}
        samples = next((c for c in self.node.classes if c not in others), None)
        return None if samples is None else self.starts[samples]
