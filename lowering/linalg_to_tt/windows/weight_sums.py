"""Writes kernels that sum over all windows, for the gradient of their weights: one sum for each place of a window.

    for each sample of the program's, each few rows of a group, each block of columns:
        load the gradients of these rows and columns
        for each row and column of x that these windows reach:
            load x; add it, times the gradient of each window that has it, to the sum of its place in that window
    sum what the threads have along the columns
    store(sums) for each place

So the sums stay in registers. Of 3x3 windows, four rows of two neighbouring columns load 24 blocks of x and 8 of the
gradient for 72 products. A program has the places of a window that are in its block: of a large window, some rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cuesta._mlir import arith, ir, math, scf
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowParts, channels_of, window_parts
from cuesta.dialects.tt.types import shape_of
from cuesta.errors import Unsupported
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node
from cuesta.lowering.linalg_to_tt.windows.behind import emit_behind, place_one
from cuesta.lowering.linalg_to_tt.windows.images import Images


def write_window_weights(
    writer: KernelWriter, node: Node, starts: Mapping[int, Value | None], blocks: Sequence[int], neighbours: int
) -> None:
    """Writes a kernel of `node`, a sum over windows, and of the elementwise nodes that read it.

    `starts` says where the program's block starts along each parallel class, and `blocks` how large it is along all. A
    thread has `neighbours` columns side by side. Rows, places and these columns are no axes of the frame: each is a
    value of its own. Raises Unsupported unless the block's rows divide a group's rows, and the neighbours all columns.
    """
    parts = window_parts(node.op)
    assert parts is not None
    _WeightSums(writer, node, parts, starts, blocks, neighbours).write()


@dataclass
class _WeightSums:
    writer: KernelWriter
    node: Node
    parts: WindowParts
    starts: Mapping[int, Value | None]
    blocks: Sequence[int]
    neighbours: int
    images: Images = field(init=False)

    def __post_init__(self) -> None:
        self.images = Images(self.writer, self.node, channels_of(self.node.op))
        frame, down, across = self.writer.frame, self.images.down, self.images.across
        for c, block in ((down.loop, self._size(down.loop)), (across.loop, self.neighbours)):
            if c >= 0 and not frame.scalars.divides(block, frame.sizes[c]):
                raise Unsupported(
                    f"{block} windows at once, which does not divide all {frame.sizes[c]}, at {self.node.op.location}"
                )
        for c in (self.parts.sample_groups, self.parts.row_groups, self.images.channels):
            if c in self.starts:
                frame.place(c, self.starts[c])

    def write(self) -> None:
        kind, frame = self.node.op.results[0].type.element_type, self.writer.frame
        sums = [tt.full(self.images.shape, kind, 0) for _ in self._places()]

        def samples(sample: Value, sums: list[Value]) -> list[Value]:
            return self._loop(self.images.down.loop, sums, lambda row, own: rows(sample, row, own))

        def rows(sample: Value, row: Value, sums: list[Value]) -> list[Value]:
            across = self.images.across.loop
            return self._loop(across, sums, lambda column, own: self._block(sample, row, column, own))

        sums = self._loop(self.parts.samples, sums, samples)
        if self.images.across.loop in frame.axes:
            sums = self._along_columns(sums)
        written = [self._place(k, j, total) for (k, j), total in zip(self._places(), sums, strict=True)]
        for place in written:
            place.store_all()

    # -- the sums ---------------------------------------------------------------------------------
    def _places(self) -> list[tuple[int, int]]:
        """The places of the windows whose sums a program has, from its first row and column."""
        rows, columns = (self._size(dim.place) for dim in (self.images.down, self.images.across))
        return list(itertools.product(range(rows), range(columns)))

    def _size(self, c: int) -> int:
        """The block's size along a class; 1 without the class."""
        return 1 if c < 0 else self.blocks[c]

    def _loop(self, c: int, sums: list[Value], body: Callable[[Value, list[Value]], list[Value]]) -> list[Value]:
        """What `body` makes of the sums, called with the start of each block along class c."""
        frame = self.writer.frame
        size = 1 if c < 0 else frame.sizes[c]
        if isinstance(size, int) and size <= self._size(c):
            return body(frame.scalar(0), sums)
        loop = scf.ForOp(*map(frame.scalar, (0, size, self._size(c))), sums)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(body(loop.induction_variable, list(loop.inner_iter_args)))
        return list(loop.results)

    def _block(self, sample: Value, row: Value, column: Value, sums: list[Value]) -> list[Value]:
        """The sums with the products of one block of windows: of a sample of the program's group, of rows from `row` on
        of its group, of columns from `column` on."""
        images, total = self.images, list(sums)
        down, across = images.down, images.across
        frames = [self._placed(sample, column, number) for number in range(self.neighbours)]
        rows = self._size(down.loop)
        gradients = {
            (number, neighbour): self._gradient(own, arith.addi(row, own.frame.scalar(number)))
            for number in range(rows)
            for neighbour, own in enumerate(frames)
        }
        first, width = frames[0].frame, self._size(across.place)
        pointer = images.sample(self._number(self.parts.sample_groups, self.parts.samples, sample))
        top = images.top(self._number(self.parts.row_groups, down.loop, row), self._start(down.place))
        lines_of = down.readers(rows, range(self._size(down.place)))
        lines = {n: images.line(pointer, top, n) for n in sorted(lines_of)}
        inside = first.mask([across.loop])  # what no window has is not even multiplied by 0
        left = arith.muli(self._start(across.place), first.scalar(across.dilation))
        for shift, taken in sorted(across.readers(self.neighbours, range(width)).items()):
            offsets, mask = images.offsets(first, arith.addi(left, first.scalar(shift)))
            if inside is not None:
                own = stretched(inside, images.shape)
                mask = own if mask is None else arith.andi(mask, own)
            for n, line in lines.items():
                x = images.load(line, offsets, mask)
                for (number, k), (neighbour, j) in itertools.product(lines_of[n], taken):
                    total[k * width + j] = math.fma(x, gradients[number, neighbour], total[k * width + j])
        return total

    def _placed(self, sample: Value, column: Value, neighbour: int) -> KernelWriter:
        """A writer at a sample of the group and the columns of each thread that have this number."""
        own, across = self.writer.copy(), self.images.across.loop
        if self.parts.samples >= 0:
            own.frame.place(self.parts.samples, sample)
        if across >= 0:
            start = arith.addi(column, own.frame.scalar(neighbour)) if neighbour else column
            own.frame.place(across, start, apart=self.neighbours)
        return own

    def _gradient(self, at: KernelWriter, row: Value) -> Value:
        """The gradient of one row of windows, in the type of the sums; 0 outside of the windows."""
        ((value, classes),) = self.node.inputs
        if self.images.down.loop >= 0:
            at.frame.place(self.images.down.loop, row)
        pointer, mask = at.pointer(value, classes), at.frame.mask(classes)
        loaded = tt.load(pointer) if mask is None else tt.load(pointer, stretched(mask, shape_of(pointer)), 0)
        return stretched(self.images.wide(loaded), self.images.shape)

    def _number(self, group: int, member: int, at: Value) -> Value:
        """The number of what is at `at` in the program's group, of all."""
        size = 1 if member < 0 else self.writer.frame.sizes[member]
        first = arith.muli(self._start(group), self.writer.frame.scalar(size))
        return arith.addi(first, at)

    def _start(self, c: int) -> Value:
        """Where the program's block starts along a class; 0 without the class."""
        start = self.starts.get(c)
        return self.writer.frame.scalar(0) if start is None else start

    # -- what follows -----------------------------------------------------------------------------
    def _along_columns(self, sums: list[Value]) -> list[Value]:
        """What all threads have along the columns, together: they wait for one another once for all sums."""
        axis = self.writer.frame.axes.index(self.images.across.loop)
        half = len(sums)

        def combine(*both: Value) -> list[Value]:
            return [arith.addf(a, b) for a, b in zip(both[:half], both[half:], strict=True)]

        frame = self.writer.frame
        reduced = tt.reduce(sums, axis, combine)
        return [tt.expand_dims(v, axis) if shape_of(v) else tt.splat(v, frame.unit) for v in reduced]

    def _place(self, row: int, column: int, total: Value) -> KernelWriter:
        """A writer of the sum for one place of the windows, which has computed all that follows it."""
        place = self.writer.copy()
        for dim, number in ((self.images.down, row), (self.images.across, column)):
            if dim.place >= 0:
                at = arith.addi(self._start(dim.place), place.frame.scalar(number))
                place_one(place.frame, dim.place, at, self.blocks[dim.place])
        emit_behind(place, self.node, total)
        return place
