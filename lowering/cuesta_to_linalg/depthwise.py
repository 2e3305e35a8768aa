"""Lowers a depthwise convolution, and the gradient of its weight, to one generic that reads windows.

%2 = cuesta.depthwise(%x, %w)         →  linalg.generic {n, i, j, c parallel; k, l reduction} ins(%w) outs(0)
                                           { %v = tensor.extract %x[n, (i * stride + k - padding) / spread, …, c]
                                             addf %out, (mulf %v, %w) }

%2 = cuesta.depthwise_weight(%x, %g)  →  linalg.generic {p, q, k, l, c parallel; m, s, j reduction} ins(%g) outs(0)
                                           { the same with n = p * M + m, i = q * S + s, and %g in place of %w }
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuesta._mlir import arith, ir, linalg, tensor
from cuesta.dialects.cuesta.contraction import Depthwise, DepthwiseWeight, window_steps
from cuesta.dialects.kernel_fields import WINDOW_PARTS, WindowedDim, WindowParts, put_windowed_dims
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.types import element, shape_of, spelling_of, static
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import Number


@lowers(Depthwise)
def lower_depthwise(b: LinalgBuilder, op: ir.Operation) -> None:
    _, weight = op.operands
    reads = _Windows(b, op, [*shape_of(op.results[0]), *shape_of(weight)[:2]])
    index = reads.index
    reads.write(
        _contiguous(b, weight, spelling_of(op.results[0])),
        lambda: [index(0), index(1), index(2), index(3)],
        rows=1,
        columns=2,
        places=(4, 5),
        reduced=(4, 5),
    )


@lowers(DepthwiseWeight)
def lower_depthwise_weight(b: LinalgBuilder, op: ir.Operation) -> None:
    _, gradient = op.operands
    p, m, q, s, j, _ = shape_of(gradient)
    reads = _Windows(b, op, [p, m, q, s, j, *shape_of(op.results[0])[2:]])
    index = reads.index
    kept = [d for d, size in enumerate(shape_of(gradient)) if size != 1]
    access = b.covering_access(gradient, kept)
    own = [(0, 1, 2, 3, 4, 7)[kept[d]] for d in access.dims]
    total = reads.write(
        Access(access.source, tuple(own), access.spelling),
        lambda: [_joined(index(0), m, index(1)), _joined(index(2), s, index(3)), index(4), index(7)],
        rows=3,
        columns=4,
        places=(5, 6),
        reduced=(1, 3, 4),
    )
    WINDOW_PARTS.put(total.owner, list(WindowParts(*map(reads.loop, (0, 1, 2)))))


@dataclass
class _Windows:
    """One generic that multiplies what windows read of x, and sums, over loops of `sizes`; loops of one iteration are
    left out."""

    b: LinalgBuilder
    op: ir.Operation
    sizes: Sequence[Number]

    @property
    def loops(self) -> list[int]:
        return [d for d, size in enumerate(self.sizes) if size != 1]

    def loop(self, d: int) -> int:
        """The number of loop `d` among those that there are; -1 for one of one iteration."""
        return self.loops.index(d) if d in self.loops else -1

    def index(self, d: int) -> Value:
        """The index of a loop, in the generic's body."""
        loop = self.loop(d)
        return arith.constant(ir.IndexType.get(), 0) if loop < 0 else linalg.IndexOp(loop).result

    def write(
        self,
        factor: Access,
        at: Callable[[], list[Value]],
        *,
        rows: int,
        columns: int,
        places: tuple[int, int],
        reduced: Sequence[int],
    ) -> Value:
        """The sums over the loops `reduced` of what is read times a factor. `at` gives the sample, the row and column
        of the window, and the channel; `rows`, `columns` and `places` are the loops that walk them."""
        b, loops, spelling = self.b, self.loops, spelling_of(self.op.results[0])
        source = b.squeezed_form(self.op.operands[0])

        def step(s: Scalar, total: Value, other: Value) -> Value:
            read = self._read(s, source, at(), [self.index(d) for d in places])
            return s.add(total, s.mul(read, s.convert(other, element(spelling))))

        total = b.generic(
            [b.on_loops(factor, loops)],
            [self.sizes[d] for d in loops],
            spelling,
            step,
            reduced=[self.loop(d) for d in reduced if d in loops],
            identity=lambda kind: 0,
        )
        dims = zip((rows, columns), places, self._steps, self._image, strict=True)
        put_windowed_dims(total.owner, [WindowedDim(self.loop(d), self.loop(k), *n, size=m) for d, k, n, m in dims])
        b.squeezed[self.op.results[0]] = total
        return total

    def _read(self, s: Scalar, source: Value, at: Sequence[Value], places: Sequence[Value]) -> Value:
        """The element of x that a window reads at a place, in the type of the sums; 0 outside of x."""
        sample, *window, channel = at
        where, inside = [sample], []
        for first, place, (stride, dilation, padding, spread), size in zip(
            window, places, self._steps, self._image, strict=True
        ):
            position = _affine(arith.addi(_affine(first, stride, 0), _affine(place, dilation, 0)), 1, -padding)
            if spread != 1:
                position, rest = _divided(position, spread)
                inside.append(rest)
            clamped, within = _clamped(position, size)
            where.append(clamped)
            inside.append(within)
        where.append(channel)
        x, result = self.op.operands[0], self.op.results[0]
        kept = [position for position, size in zip(where, shape_of(x), strict=True) if size != 1]
        read = s.convert(tensor.extract(source, kept), element(spelling_of(result)))
        return arith.select(functools.reduce(arith.andi, inside), read, s.const(read, 0))

    @property
    def _image(self) -> list[int]:
        """The rows and columns of x."""
        return [static(size) for size in shape_of(self.op.operands[0])[1:3]]

    @property
    def _steps(self) -> list[tuple[int, int, int, int]]:
        """Stride, dilation, padding and spread along each dim of a window."""
        return list(zip(*window_steps(self.op), strict=True))


def _contiguous(b: LinalgBuilder, weight: Value, spelling: str) -> Access:
    """A copy of the weight [h, w, C] of the sums' type, which no program has to convert, by the loops of the
    convolution. Its channels lie side by side in memory."""
    kept = [d for d, size in enumerate(shape_of(weight)) if size != 1]
    with ir.Location.name("copy"):
        access = b.on_loops(b.access(weight), kept)
        wide = element(spelling)
        copied = b.generic([access], [shape_of(weight)[d] for d in kept], spelling, lambda s, x: s.convert(x, wide))
    return Access(copied, tuple((4, 5, 3)[d] for d in kept), spelling)


def _joined(group: Value, size: Number, member: Value) -> Value:
    """The position of a member of a group, in groups of `size`."""
    return arith.addi(_affine(group, static(size), 0), member)


def _affine(x: Value, factor: int, addend: int) -> Value:
    if factor != 1:
        x = arith.muli(x, arith.constant(x.type, factor))
    return arith.addi(x, arith.constant(x.type, addend)) if addend else x


def _divided(at: Value, by: int) -> tuple[Value, Value]:
    """The position divided, rounded down, and whether it is a multiple."""
    divisor, zero = arith.constant(at.type, by), arith.constant(at.type, 0)
    quotient = arith.floordivsi(at, divisor)
    return quotient, arith.cmpi(arith.CmpIPredicate.eq, arith.subi(at, arith.muli(quotient, divisor)), zero)


def _clamped(at: Value, size: int) -> tuple[Value, Value]:
    """The position within [0, size) that is nearest to `at`, and whether `at` is within."""
    zero, last = arith.constant(at.type, 0), arith.constant(at.type, size - 1)
    within = arith.andi(arith.cmpi(arith.CmpIPredicate.sge, at, zero), arith.cmpi(arith.CmpIPredicate.sle, at, last))
    return arith.minsi(arith.maxsi(at, zero), last), within
