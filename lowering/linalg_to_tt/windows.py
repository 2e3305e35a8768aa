"""Writes kernels that sum over windows: each element that a program loads is added to all sums that need it.

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

from cuesta._mlir import arith, ir, math, scf, tensor
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowedDim, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node

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
    down: WindowedDim = field(init=False)
    across: WindowedDim = field(init=False)
    #: the scalar position of the block's first row
    top: Value = field(init=False)

    def __post_init__(self) -> None:
        self.down, self.across = windowed_dims(self.node.op)
        frame = self.writer.frame
        for c, start in self.starts.items():
            if c not in (self.down.loop, self.across.loop):
                frame.place(c, start)
        self._place_columns(frame, 0)
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
            at = arith.addi(self.top, row.frame.scalar(number))
            row.frame.place(c, at)
            if not row.frame.scalars.divides(self.rows, row.frame.sizes[c]):
                within = arith.cmpi(arith.CmpIPredicate.slt, at, row.frame.scalar(row.frame.sizes[c]))
                row.frame.masks[c] = tt.splat(within, row.frame.unit)
        row.blocks[self.node.op.results[0]] = total
        for node in row.nodes:
            if node.op.results[0] not in row.blocks:
                row.emit(node)
        # What does not lie along the rows was loaded for all of them.
        own = {c, *self._split}
        self.writer.loaded |= {key: value for key, value in row.loaded.items() if not own & {*key[1]}}
        return row

    def _sums(self) -> list[Value]:
        """The sums, as blocks of columns and channels: of each row, those of each thread's first columns come first."""
        frame = self.writer.frame
        heights, widths = (self._places(dim) for dim in (self.down, self.across))
        readers = _readers(self.down, self.rows, heights)
        shape = self._shape
        sample = self._sample()
        lines = {offset: [tt.splat(v, shape) for v in self._line(sample, offset)] for offset in sorted(readers)}
        kind = self.node.op.results[0].type.element_type
        sums = [tt.full(shape, kind, 0) for _ in range(self.rows * self.neighbours)]
        columns = _readers(self.across, self.neighbours, widths)
        if len(lines) * len(columns) + heights * widths <= _UNROLLED:
            weights = [self._weights(frame.scalar(j)) for j in range(widths)]
            for shift, taken in sorted(columns.items()):
                sums = self._column(frame.scalar(shift), {n: weights[j] for n, j in taken}, lines, readers, sums)
            return sums
        return self._looped(widths, lines, readers, sums)

    def _looped(
        self,
        widths: int,
        lines: Mapping[int, Sequence[Value]],
        readers: Mapping[int, Sequence[tuple[int, int]]],
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
            if order[0]:
                shift = arith.addi(shift, first)
            return self._column(shift, {order[n]: weights for n, weights in taken.items()}, lines, readers, sums)

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
        heights = self._places(self.down)
        return [list(weights[i : i + heights]) for i in range(0, len(weights), heights)]

    def _weights(self, place: Value) -> _Column:
        """The weights of one column of the windows; `place` is its number."""
        return [stretched(self._weight(k, place), self._shape) for k in range(self._places(self.down))]

    def _column(
        self,
        shift: Value,
        weights: Mapping[int, _Column],
        lines: Mapping[int, Sequence[Value]],
        readers: Mapping[int, Sequence[tuple[int, int]]],
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with the terms of one column of x added, `shift` from the first place of the block's windows.
        `weights` has those of its place in the windows of a thread's columns, by their numbers."""
        offsets, mask = self._offsets(shift)
        total = list(sums)
        for offset, (pointer, inside) in lines.items():
            within = inside if mask is None else arith.andi(inside, mask)
            element = self._wide(tt.load(tt.addptr(pointer, offsets), within, 0))
            for number, k in readers[offset]:
                for column, own in weights.items():
                    i = number * self.neighbours + column
                    total[i] = math.fma(element, own[k], total[i])
        return total

    @property
    def _shape(self) -> list[int]:
        """The shape of a row of sums."""
        return self.writer.frame.shape([self._channels, self.across.loop])

    @property
    def _channels(self) -> int:
        (_, classes), *_ = self.node.inputs
        return classes[-1]

    def _places(self, dim: WindowedDim) -> int:
        size = 1 if dim.place < 0 else self.writer.frame.sizes[dim.place]
        assert isinstance(size, int)
        return size

    def _weight(self, k: int, place: Value) -> Value:
        """The channels' weights of one place, in the type of the sums."""
        ((value, classes),) = self.node.inputs
        frame = self.writer.frame
        for dim, number in ((self.down, frame.scalar(k)), (self.across, place)):
            if dim.place >= 0:
                frame.positions[dim.place] = tt.splat(number, frame.unit)
        pointer, mask = self.writer.pointer(value, classes), frame.mask(classes)
        return self._wide(tt.load(pointer, None if mask is None else stretched(mask, shape_of(pointer))))

    def _sample(self) -> Value:
        """The scalar pointer to the program's sample."""
        others = {self._channels, *(n for dim in (self.down, self.across) for n in (dim.loop, dim.place))}
        samples = next((c for c in self.node.classes if c not in others), None)
        start = None if samples is None else self.starts[samples]
        pointer = self.writer.pointers[self._tensor]
        if start is None:
            return pointer
        return tt.addptr(pointer, arith.muli(start, self.writer.frame.scalar(self._strides()[0])))

    def _line(self, pointer: Value, offset: int) -> tuple[Value, Value]:
        """The scalar pointer to a row of the tensor in the sample at `pointer`, and whether there is such a row;
        `offset` counts from the first place of the block's first row."""
        frame, strides = self.writer.frame, self._strides()
        if self._is_trivial(self.down):
            return pointer, arith.constant(ir.IntegerType.get_signless(1), 1)
        row = arith.muli(self.top, frame.scalar(self.down.stride))
        row = arith.addi(row, frame.scalar(offset - self.down.padding))
        pointer = tt.addptr(pointer, arith.muli(row, frame.scalar(strides[-3 + self._is_trivial(self.across)])))
        return pointer, _within(row, frame.scalar(0), frame.scalar(self.down.size))

    def _offsets(self, shift: Value) -> tuple[Value, Value | None]:
        """The offsets in a row of what lies `shift` from the first place of the block's windows, and the mask of those
        within the row."""
        frame, strides, shape = self.writer.frame, self._strides(), self._shape
        offset, mask = frame.positions[self._channels], frame.mask([self._channels])
        if not self._is_trivial(self.across):
            shift = arith.subi(shift, frame.scalar(self.across.padding))
            unit = frame.positions.get(self.across.loop, tt.splat(frame.scalar(0), frame.unit))
            at = arith.muli(unit, frame.scalars.block(self.across.stride, list(shape_of(unit))))
            at = arith.addi(at, tt.splat(shift, shape_of(unit)))
            within = _within(at, *(frame.scalars.block(n, list(shape_of(unit))) for n in (0, self.across.size)))
            mask = within if mask is None else arith.andi(*common_shape([within, mask]))
            offset = arith.addi(*common_shape([frame.scaled(at, strides[-2]), offset]))
        return stretched(offset, shape), None if mask is None else stretched(mask, shape)

    def _wide(self, value: Value) -> Value:
        kind = tt.block_type(shape_of(value), self.node.op.results[0].type.element_type)
        return value if element_of(value) == element_of(kind) else arith.extf(kind, value)

    # -- the tensor, [N, H, W, C] without dims of size 1 --------------------------------------
    @property
    def _tensor(self) -> Value:
        (read,) = (op for op in body_ops(self.node.op) if op.name == tensor.ExtractOp.OPERATION_NAME)
        value: Value = read.operands[0]
        return value

    def _strides(self) -> list[int]:
        return list(self.writer.strides[self._tensor])  # type: ignore[arg-type]

    @staticmethod
    def _is_trivial(dim: WindowedDim) -> bool:
        return dim.size == 1


def _within(x: Value, zero: Value, size: Value) -> Value:
    predicate = arith.CmpIPredicate
    return arith.andi(arith.cmpi(predicate.sge, x, zero), arith.cmpi(predicate.slt, x, size))


def _readers(dim: WindowedDim, count: int, places: int) -> dict[int, list[tuple[int, int]]]:
    """What lies so far from the first place of the first of `count` neighbouring windows → the windows that have it, by
    number, and its place in each."""
    readers: dict[int, list[tuple[int, int]]] = {}
    for number in range(count):
        for place in range(places):
            readers.setdefault(number * dim.stride + place * dim.dilation, []).append((number, place))
    return readers
