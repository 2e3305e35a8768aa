"""Reads the lines of a tensor that a block of windows needs, [N, H, W, C] without dims of size 1."""

from __future__ import annotations

from dataclasses import dataclass, field

from cuesta._mlir import arith, ir, tensor
from cuesta.dialects import tt
from cuesta.dialects.kernel_fields import WindowedDim, windowed_dims
from cuesta.dialects.kernel_module import body_ops
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, common_shape, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


@dataclass
class Images:
    """The tensor that a node reads windows of, whose last dim walks the class `channels`."""

    writer: KernelWriter
    node: Node
    channels: int
    down: WindowedDim = field(init=False)
    across: WindowedDim = field(init=False)

    def __post_init__(self) -> None:
        self.down, self.across = windowed_dims(self.node.op)

    def places(self, dim: WindowedDim) -> int:
        """How many places windows have along a dim."""
        size = 1 if dim.place < 0 else self.writer.frame.sizes[dim.place]
        assert isinstance(size, int)
        return size

    @property
    def shape(self) -> list[int]:
        """The shape of what is read for a place of each window in a row."""
        return self.writer.frame.shape([self.channels, self.across.loop])

    def sample(self, number: Value | None) -> Value:
        """The scalar pointer to a sample; to the first without a number."""
        pointer = self.writer.pointers[self._tensor]
        if number is None:
            return pointer
        return tt.addptr(pointer, arith.muli(number, self.writer.frame.scalar(self._strides[0])))

    def top(self, row: Value, place: Value | None = None) -> Value:
        """Where windows in a row begin, without their padding: their first row, or that of a place. With a spread, the
        row is a multiple of it."""
        frame, dim = self.writer.frame, self.down
        top = _times(frame, row, dim.stride, dim.spread)
        return top if place is None else arith.addi(top, arith.muli(place, frame.scalar(dim.dilation)))

    def line(self, sample: Value, top: Value, offset: int) -> tuple[Value, Value]:
        """The pointer to a line in the sample at `sample`, `offset` below where windows begin (`WindowedDim.readers`),
        and whether there is such a line, as blocks of `shape`."""
        frame = self.writer.frame
        if self.down.size == 1:
            return tt.splat(sample, self.shape), tt.splat(tt.constant(1, "i1"), self.shape)
        row = arith.addi(top, frame.scalar(offset))
        pointer = tt.addptr(sample, arith.muli(row, frame.scalar(self._strides[-3 + (self.across.size == 1)])))
        within = _within(row, frame.scalar(0), frame.scalar(self.down.size))
        return tt.splat(pointer, self.shape), tt.splat(within, self.shape)

    def offsets(self, frame: Frame, shift: Value) -> tuple[Value, Value | None]:
        """The offsets in a line of what lies `shift` from where the frame's windows begin, without their padding, and
        the mask of those within the line."""
        offset, mask = frame.positions[self.channels], frame.mask([self.channels])
        if self.across.size != 1:
            unit = frame.positions.get(self.across.loop, tt.splat(frame.scalar(0), frame.unit))
            at = _times(frame, unit, self.across.stride, self.across.spread)
            at = arith.addi(at, tt.splat(shift, shape_of(unit)))
            within = _within(at, *(frame.scalars.block(n, list(shape_of(unit))) for n in (0, self.across.size)))
            mask = within if mask is None else arith.andi(*common_shape([within, mask]))
            offset = arith.addi(*common_shape([frame.scaled(at, self._strides[-2]), offset]))
        return stretched(offset, self.shape), None if mask is None else stretched(mask, self.shape)

    def load(self, line: tuple[Value, Value], offsets: Value, mask: Value | None) -> Value:
        """The elements of a line, in the type of the sums."""
        pointer, inside = line
        within = inside if mask is None else arith.andi(inside, mask)
        return self.wide(tt.load(tt.addptr(pointer, offsets), within, 0))

    def wide(self, value: Value) -> Value:
        """A block in the type of the sums."""
        kind = tt.block_type(shape_of(value), self.node.op.results[0].type.element_type)
        return value if element_of(value) == element_of(kind) else arith.extf(kind, value)

    @property
    def _tensor(self) -> Value:
        (read,) = (op for op in body_ops(self.node.op) if op.name == tensor.ExtractOp.OPERATION_NAME)
        value: Value = read.operands[0]
        return value

    @property
    def _strides(self) -> list[int]:
        return list(self.writer.strides[self._tensor])  # type: ignore[arg-type]


def _times(frame: Frame, x: Value, stride: int, spread: int) -> Value:
    """x · stride / spread, of a scalar or a block of multiples of the spread."""

    def number(n: int) -> Value:
        return frame.scalars.block(n, list(shape_of(x))) if isinstance(x.type, ir.RankedTensorType) else frame.scalar(n)

    product = arith.muli(x, number(stride))
    return product if spread == 1 else arith.divsi(product, number(spread))


def _within(x: Value, zero: Value, size: Value) -> Value:
    predicate = arith.CmpIPredicate
    return arith.andi(arith.cmpi(predicate.sge, x, zero), arith.cmpi(predicate.slt, x, size))
