"""Writes kernels that sum over windows: each element that a program loads is added to all rows of sums that need it.

    for each column of a window:                                   one program; unrolled, unless this takes many loads
        for each row of x that windows of the block's rows reach:
            load x[row, columns of the block + column of the window, channels]
            add it, times the weight of its place, to each row of sums whose window has it
    store(gelu(sums + bias)) for each row

So the sums, and one column of weights, stay in registers, and of 3x3 windows four rows load 18 blocks where their sums
have 36 terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cuesta._mlir import arith, ir, math, scf, tensor
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowedDim, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node

#: The most loads of an unrolled loop over the columns of a window: Triton's time grows with the loads times the ops.
_UNROLLED = 48


def write_windows(writer: KernelWriter, node: Node, starts: Mapping[int, Value | None], rows: int) -> None:
    """Writes a kernel of `node`, a sum over windows, and of the elementwise nodes that read it.

    `starts` says where the program's block starts along each parallel class. The block has `rows` rows. Each row is a
    value of its own, so the frame has no axis for rows.
    """
    _Windows(writer, node, rows, starts).write()


@dataclass
class _Windows:
    writer: KernelWriter
    node: Node
    rows: int
    starts: Mapping[int, Value | None]
    down: WindowedDim = field(init=False)
    across: WindowedDim = field(init=False)
    #: the scalar position of the block's first row
    top: Value = field(init=False)

    def __post_init__(self) -> None:
        self.down, self.across = windowed_dims(self.node.op)
        frame = self.writer.frame
        for c, start in self.starts.items():
            if c != self.down.loop:
                frame.place(c, start)
        start = self.starts.get(self.down.loop)
        self.top = frame.scalar(0) if start is None else start

    def write(self) -> None:
        sums = self._sums()
        if self.down.loop >= 0:
            for node in self.writer.nodes:
                if self.down.loop not in node.classes:
                    self.writer.emit(node)
        finished = [self._row(number, total) for number, total in enumerate(sums)]
        for row in finished:
            row.store_all()

    def _row(self, number: int, total: Value) -> KernelWriter:
        """A writer of one row, which has computed all that follows the sums."""
        row = self.writer.copy()
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
        self.writer.loaded |= {key: value for key, value in row.loaded.items() if c not in key[1]}
        return row

    def _sums(self) -> list[Value]:
        """The sums of each row, as blocks of columns and channels."""
        frame = self.writer.frame
        heights, widths = (self._places(dim) for dim in (self.down, self.across))
        readers: dict[int, list[tuple[int, int]]] = {}
        for number in range(self.rows):
            for k in range(heights):
                readers.setdefault(number * self.down.stride + k * self.down.dilation, []).append((number, k))
        shape = self._shape
        sample = self._sample()
        lines = {offset: [tt.splat(v, shape) for v in self._line(sample, offset)] for offset in sorted(readers)}
        kind = self.node.op.results[0].type.element_type
        sums = [tt.full(shape, kind, 0) for _ in range(self.rows)]
        if (len(lines) + heights) * widths <= _UNROLLED:
            for j in range(widths):
                sums = self._column(frame.scalar(j), lines, readers, sums)
            return sums
        loop = scf.ForOp(*map(frame.scalar, (0, widths, 1)), sums)
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(self._column(loop.induction_variable, lines, readers, list(loop.inner_iter_args)))
        return list(loop.results)

    def _column(
        self,
        place: Value,
        lines: Mapping[int, Sequence[Value]],
        readers: Mapping[int, Sequence[tuple[int, int]]],
        sums: Sequence[Value],
    ) -> list[Value]:
        """The sums with the terms of one column of the windows added; `place` is its number."""
        heights = self._places(self.down)
        weights = [stretched(self._weight(k, place), self._shape) for k in range(heights)]
        offsets, mask = self._offsets(place)
        total = list(sums)
        for offset, (pointer, inside) in lines.items():
            within = inside if mask is None else arith.andi(inside, mask)
            element = self._wide(tt.load(tt.addptr(pointer, offsets), within, 0))
            for number, k in readers[offset]:
                total[number] = math.fma(element, weights[k], total[number])
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

    def _offsets(self, place: Value) -> tuple[Value, Value | None]:
        """The offsets in a row of one place of the block's windows, and the mask of those within the row."""
        frame, strides, shape = self.writer.frame, self._strides(), self._shape
        offset, mask = frame.positions[self._channels], frame.mask([self._channels])
        if not self._is_trivial(self.across):
            shift = arith.muli(place, frame.scalar(self.across.dilation))
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
