"""Writes kernels of products of few rows, whose warps share out K: each weight is read once, at the memory's speed.

    acc[WARPS, 16, BLOCK_N] = 0                                      one program: all rows, BLOCK_N columns
    for k in 0..K step WARPS * PART:
        acc = tt.dot(a[WARPS, 16, PART], b[WARPS, PART, BLOCK_N], acc)    a product for each warp
    store(epilogue(sum of acc along its first dim))

16 rows by a few columns are one instruction of the tensor cores for each 16 terms of K. Where warps share out such a
block, most of them have nothing of their own to do and repeat another's work, and each instruction waits for the sum of
the one before it: with K = 8192 that takes longer than the memory does. Along K each warp has its own chain of
instructions, a quarter as long with four warps, and its own part of the operands to load. Parts are added up in a fixed
order.

First of all a program asks for the beginning of its rows of the weight to be brought to the L2 cache: a kernel that
overlaps the one in front of it (overlap-launches) then has the memory at work while it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir
from cuesta.dialects import tt
from cuesta.dialects.product import LEAST, roles_of, tile_of
from cuesta.dialects.tt.instructions import prefetch
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Value
from cuesta.lowering.linalg_to_tt.product import WIDE, Products
from cuesta.sizes import Number

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


#: The bytes of weights that a program asks for first: 132 programs ask for a sixth of an H100's L2 cache. And the
#: threads of a warp, at least.
PREFETCHED, _THREADS = 64 << 10, 32


def is_along_k(product: ir.Operation) -> bool:
    """Whether the warps of a product's program share out K."""
    tile = tile_of(product)
    return tile is not None and tile.along_k


def write_few_rows(writer: KernelWriter, products: Sequence[Node], parallel: Sequence[int], warps: int) -> None:
    """Writes a kernel of `products`, which walk the same classes, and of the writer's other nodes."""
    # The warps are one more class, behind the others.
    frame = replace(writer.frame, sizes=[*writer.frame.sizes, warps], blocks=[*writer.frame.blocks, warps])
    FewRows(replace(writer, frame=frame), products, *roles_of(products[0].op), warps).write(parallel)


@dataclass
class FewRows(Products):
    """A kernel's products whose operands and sums have a dim of warps in front."""

    @property
    def least_k(self) -> int:
        return LEAST * self.warps

    @property
    def _parts(self) -> int:
        """The class of the warps' parts of K."""
        return len(self.writer.frame.blocks) - 1

    def shape_of_sums(self, whole: KernelWriter) -> list[int]:
        return [self.warps, *super().shape_of_sums(whole)]

    def write(self, parallel: Sequence[int]) -> None:
        self._prefetch(self._starts(parallel))
        super().write(parallel)

    def _prefetch(self, starts: dict[int, Value]) -> None:
        """Asks for the beginning of each row of the program's weights that lie in memory row by row: as they are
        multiplied, or as they are stored and then widened."""
        frame = self.writer.frame
        n, k, rows = frame.sizes[self.n], frame.sizes[self.k], frame.blocks[self.n]
        read = dict.fromkeys((value, *classes) for node in self.writer.nodes for value, classes in node.inputs)
        weights = [key for key in read if isinstance(key[0].owner, ir.Block) and {*key[1:]} == {self.n, self.k}]
        for value, *classes in weights:
            stride, width = self.writer.strides[value][classes.index(self.n)], byte_size(spelling_of(value))
            if not (isinstance(n, int) and isinstance(k, int) and isinstance(stride, int)):
                continue
            if self._along(value, classes) != self.k or n % rows:
                continue
            size, row = min(k * width, PREFETCHED // (rows * len(weights))) // WIDE * WIDE, stride * width
            count, size, row = (1, rows * row, row) if size == row else (rows, size, row)
            if size and count <= _THREADS * self.warps:
                start = arith.muli(starts[self.n], frame.scalar(stride))
                prefetch(tt.addptr(self.writer.pointers[value], start), count, row, size)

    def sums(self, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]) -> list[Value]:
        # What the epilogue reads, such as a residual, is on its way while the loop runs: nothing hides its time later.
        for node in self.writer.nodes:
            for value, classes in node.inputs if self.is_outside(node) else ():
                if isinstance(value.owner, ir.Block):
                    whole.load(value, classes)
        return [tt.reduce([sums], 0, arith.addf)[0] for sums in super().sums(whole, starts, making)]

    def on(
        self, axes: list[int], starts: dict[int, Value], blocks: dict[int, int], ends: dict[int, Number] | None = None
    ) -> KernelWriter:
        if self.k not in axes:
            return super().on(axes, starts, blocks, ends)
        length = blocks.get(self.k, self.writer.frame.blocks[self.k]) // self.warps
        first = self.writer.frame.scalar(0)
        own = super().on([self._parts, *axes], starts | {self._parts: first}, blocks | {self.k: length}, ends)
        own.frame.spread(self.k, self._parts)
        return own

    def outer(self, whole: KernelWriter, making: set[ir.Operation]) -> dict[Value, Value]:
        read = {value for op in making for value in op.operands if value in whole.blocks}
        return {value: tt.expand_dims(whole.blocks[value], 0) for value in read}
