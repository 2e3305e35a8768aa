"""Writes kernels that sum over windows: each element that a program loads is added to all rows of sums that need it.

    for each column of a window:                                   one program; all loops are unrolled
        for each row of x that windows of the block's rows reach:
            load x[row, columns of the block + column of the window, channels]
            add it, times the weight of its place, to each row of sums whose window has it
    store(gelu(sums + bias)) for each row

So the sums, and one column of weights, stay in registers, and of 3x3 windows four rows load 18 blocks where their sums
have 36 terms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cuesta._mlir import arith, ir, tensor
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowedDim, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


def write_windows(writer: KernelWriter, node: Node, starts: Mapping[int, Value | None], rows: int) -> None:
    """Writes a kernel of `node`, a sum over windows, and of the elementwise nodes that read it. `starts` says where the
    program's block starts along each parallel class; it has `rows` rows, none of which is an axis of the frame."""
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
        heights, widths = (self._places(dim) for dim in (self.down, self.across))
        readers: dict[int, list[tuple[int, int]]] = {}
        for number in range(self.rows):
            for k in range(heights):
                readers.setdefault(number * self.down.stride + k * self.down.dilation, []).append((number, k))
        lines = {offset: self._line(offset) for offset in sorted(readers)}
        sums: list[Value | None] = [None] * self.rows
        for j in range(widths):
            weights = [self._weight(k, j) for k in range(heights)]
            offsets, mask = self._columns(j)
            for offset, (pointer, inside) in lines.items():
                element = self._load(pointer, offsets, (inside, mask))
                for number, k in readers[offset]:
                    term = arith.mulf(*common_shape([element, weights[k]]))
                    total = sums[number]
                    sums[number] = term if total is None else arith.addf(total, term)
        return [total for total in sums if total is not None]

    def _places(self, dim: WindowedDim) -> int:
        size = 1 if dim.place < 0 else self.writer.frame.sizes[dim.place]
        assert isinstance(size, int)
        return size

    def _weight(self, k: int, j: int) -> Value:
        """The channels' weights of one place, in the type of the sums."""
        ((value, classes),) = self.node.inputs
        frame = self.writer.frame
        for dim, place in ((self.down, k), (self.across, j)):
            if dim.place >= 0:
                frame.positions[dim.place] = tt.splat(frame.scalar(place), frame.unit)
        pointer, mask = self.writer.pointer(value, classes), frame.mask(classes)
        return self._wide(tt.load(pointer, None if mask is None else stretched(mask, shape_of(pointer))))

    def _line(self, offset: int) -> tuple[Value, Value]:
        """The scalar pointer to a row of the tensor, and whether there is such a row; `offset` counts from the first
        row's first place."""
        frame, strides = self.writer.frame, self._strides()
        row = _plus(frame.scalar, arith.muli(self.top, frame.scalar(self.down.stride)), offset - self.down.padding)
        pointer = self.writer.pointers[self._tensor]
        if self._samples is not None:
            start = self.starts[self._samples]
            if start is not None:
                pointer = tt.addptr(pointer, arith.muli(start, frame.scalar(strides[0])))
        if self._is_trivial(self.down):
            return pointer, _true()
        pointer = tt.addptr(pointer, arith.muli(row, frame.scalar(strides[-3 + self._is_trivial(self.across)])))
        return pointer, _within(row, frame.scalar(0), frame.scalar(self.down.size))

    def _columns(self, place: int) -> tuple[Value, Value | None]:
        """The offsets in a row of one place of the block's windows, and the mask of those within the row."""
        frame, strides = self.writer.frame, self._strides()
        (_, classes), *_ = self.node.inputs
        channels = classes[-1]
        offset, mask = frame.positions[channels], frame.mask([channels])
        if self._is_trivial(self.across):
            return offset, mask
        unit = frame.positions.get(self.across.loop, tt.splat(frame.scalar(0), frame.unit))
        shape = list(shape_of(unit))
        at = arith.muli(unit, frame.scalars.block(self.across.stride, shape))
        at = _plus(lambda n: tt.splat(frame.scalar(n), shape), at, place * self.across.dilation - self.across.padding)
        within = _within(at, *(frame.scalars.block(n, shape) for n in (0, self.across.size)))
        mask = within if mask is None else arith.andi(*common_shape([within, mask]))
        return arith.addi(*common_shape([frame.scaled(at, strides[-2]), offset])), mask

    def _load(self, pointer: Value, offsets: Value, masks: tuple[Value, Value | None]) -> Value:
        shape = list(shape_of(offsets))
        inside, mask = masks
        total = tt.splat(inside, shape)
        if mask is not None:
            total = arith.andi(total, stretched(mask, shape))
        return self._wide(tt.load(tt.addptr(tt.splat(pointer, shape), offsets), total, 0))

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

    @property
    def _samples(self) -> int | None:
        """The class of N; None if there is one sample."""
        windows = {n for dim in (self.down, self.across) for n in (dim.loop, dim.place)}
        (_, classes), *_ = self.node.inputs
        return next((c for c in self.node.classes if c not in windows and c != classes[-1]), None)

    @staticmethod
    def _is_trivial(dim: WindowedDim) -> bool:
        return dim.size == 1


def _true() -> Value:
    return arith.constant(ir.IntegerType.get_signless(1), 1)


def _plus(constant: Callable[[int], Value], x: Value, number: int) -> Value:
    return arith.addi(x, constant(number)) if number else x


def _within(x: Value, zero: Value, size: Value) -> Value:
    predicate = arith.CmpIPredicate
    return arith.andi(arith.cmpi(predicate.sge, x, zero), arith.cmpi(predicate.slt, x, size))
