"""Writes kernels of matrix products: a loop over K that accumulates a block with tensor cores, then the epilogue.

    acc = 0                                              one program: BLOCK_M x BLOCK_N of the result
    for k in 0..K step BLOCK_K:
        acc = tt.dot(a[BLOCK_M, BLOCK_K], b[BLOCK_K, BLOCK_N], acc)
    store(gelu(acc + bias))

Where programs take blocks in turns, all of this is in a loop over blocks, which Triton merges with the loop over K.

Operands are blocks of their own two classes, [M, K] and [K, N]; the producers of an operand are computed on its block.
Triton derives the layout of operands in memory itself. The epilogue works on blocks [M, N], or on some of their columns
at a time if a thread would hold too many elements.

Loads are 16 bytes wide and overlap with the tensor cores' work, unless a mask splits these bytes. If rows begin at
multiples of 16 bytes but do not end there, K is peeled: its last part is multiplied after the loop. Along M or N, the
last 16 bytes of a row are loaded whole; the surplus elements contribute only to results that are not stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.product import LEAST, PRECISION, roles_of, tile_of
from cuesta.dialects.tt.fields import FLATTEN
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.lowering.linalg_to_tt.frame import Frame, Value, blocks_along, common_shape, stretched
from cuesta.lowering.linalg_to_tt.memory.row_ends import WIDE, along_rows, rounded_mask
from cuesta.sizes import Number
from cuesta.sizes.powers import power_at_least

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node

#: Blocks along M in a group. For each block along N the programs of a group run in succession and share the cache.
_GROUP = 8
#: The most elements of the sums per thread with which the epilogue works on all at once, and how many it takes at a
#: time if there are more: the epilogue of 128 (gelu, or the addresses of ragged rows) does not fit in registers.
_AT_ONCE, _AT_A_TIME = 64, 32
#: The most elements of the sums per thread with which what the epilogue reads is loaded before the loop along K: it
#: then waits in registers, beside the sums.
_FEW = 8


def write_products(writer: KernelWriter, products: Sequence[Node], parallel: Sequence[int], warps: int) -> None:
    """Writes a kernel of `products`, which walk the same classes, and of the writer's other nodes."""
    Products(writer, products, *roles_of(products[0].op), warps).write(parallel)


@dataclass
class Products:
    """A kernel's products, with the classes of M, N and K."""

    writer: KernelWriter
    products: Sequence[Node]
    m: int
    n: int
    k: int
    warps: int

    def write(self, parallel: Sequence[int]) -> None:
        frame, programs = self.writer.frame, self._programs
        if programs is None:
            self._write_block(parallel, _widened(tt.get_program_id(0), frame))
            return
        blocks = [blocks_along(frame.sizes[c], frame.blocks[c]) for c in parallel]
        first, last = tt.get_program_id(0), frame.scalar(math.prod(blocks))
        loop = scf.ForOp(_widened(first, frame), last, frame.scalar(programs))
        FLATTEN.mark(loop.operation)
        with ir.InsertionPoint(loop.body):
            self._write_block(parallel, loop.induction_variable)
            scf.YieldOp([])

    @property
    def _programs(self) -> int | None:
        """How many programs take all blocks in turns; None for one program a block."""
        tile = tile_of(self.products[0].op)
        return None if tile is None else tile.programs

    def _write_block(self, parallel: Sequence[int], number: Value) -> None:
        """Writes what computes and stores one block of the result, by its number."""
        starts = self._starts(parallel, number)
        whole = self.on([self.m, self.n], starts, {})
        making = self.making()
        for node in whole.nodes:
            if node.op in making and self.is_outside(node):
                whole.emit(node)
        if self._held <= _FEW:
            self._load_what_follows(whole)
        self.finish(whole, starts, self.sums(whole, starts, making))

    def making(self) -> set[ir.Operation]:
        """The ops that make the products' factors."""
        return self.writer.needed(self.products) - {node.op for node in self.products}

    @property
    def _held(self) -> int:
        """How many elements of the sums a thread has."""
        blocks = self.writer.frame.blocks
        return blocks[self.m] * blocks[self.n] * len(self.products) // (32 * self.warps)

    def finish(self, whole: KernelWriter, starts: dict[int, Value], sums: Sequence[Value]) -> None:
        """Writes the epilogue of a block's sums, all at once or by some of their columns."""
        frame, held = self.writer.frame, self._held
        # Where programs take turns, Triton loads for the next block while one is stored. Stores of whole rows then take
        # least time: runs that begin unaligned take longest.
        if held <= _AT_ONCE or self._programs is not None:
            self.follow(whole, sums)
            return
        parts = [[total] for total in sums]
        while held > _AT_A_TIME * len(parts[0]):
            parts = [[half for part in own for half in _halves(part)] for own in parts]
        width = frame.blocks[self.n] // len(parts[0])
        for i, totals in enumerate(zip(*parts, strict=True)):
            moved = starts | {self.n: arith.addi(starts[self.n], frame.scalar(i * width))}
            self.follow(self.on([self.m, self.n], moved, {self.n: width}), totals)

    def _load_what_follows(self, whole: KernelWriter) -> None:
        """Loads what the epilogue reads, such as a residual: nothing hides the time of these loads after the loop."""
        for node in self.writer.nodes:
            for value, classes in node.inputs if self.is_outside(node) else ():
                if isinstance(value.owner, ir.Block):
                    whole.load(value, classes)

    def is_outside(self, node: Node) -> bool:
        """Whether a node is computed outside the loop along K."""
        return self.k not in node.classes

    def follow(self, writer: KernelWriter, sums: Sequence[Value]) -> None:
        """Writes the epilogue of the sums."""
        for node, total in zip(self.products, sums, strict=True):
            writer.blocks[node.op.results[0]] = total
        for node in writer.nodes:
            if node.op.results[0] not in writer.blocks and self.is_outside(node):
                writer.emit(node)
        writer.store_all()

    def on(
        self, axes: list[int], starts: dict[int, Value], blocks: dict[int, int], ends: dict[int, Number] | None = None
    ) -> KernelWriter:
        """A writer on blocks with `axes`, at `starts`; `blocks` and `ends` replace sizes of blocks and of classes."""
        frame = self.writer.frame
        sizes = [(ends or {}).get(c, size) for c, size in enumerate(frame.sizes)]
        own = [blocks.get(c, block) for c, block in enumerate(frame.blocks)]
        frame = replace(frame, sizes=sizes, blocks=own, positions={}, masks={})
        frame.axes = axes
        for c, start in starts.items():
            if c in axes or c not in (self.m, self.n):
                frame.place(c, start, 1 if c == self.k else self.writer.frame.blocks[c])
        return replace(self.writer, frame=frame, blocks={}, loaded={})

    def _starts(self, parallel: Sequence[int], left: Value) -> dict[int, Value]:
        """Where the block of a number starts along each parallel class. A group of blocks along M advances along N
        together, so that programs that run at about the same time read only the group's rows and a few columns."""
        frame = self.writer.frame
        rows, columns = (blocks_along(frame.sizes[c], frame.blocks[c]) for c in (self.m, self.n))
        starts: dict[int, Value] = {}
        number, left = _parted(left, frame.scalar(rows * columns))
        group = arith.divsi(number, frame.scalar(_GROUP * columns))
        first = arith.muli(group, frame.scalar(_GROUP))
        within = arith.subi(number, arith.muli(first, frame.scalar(columns)))
        height = arith.minsi(arith.subi(frame.scalar(rows), first), frame.scalar(_GROUP))
        row, column = _parted(within, height)
        for c, block in ((self.m, arith.addi(first, row)), (self.n, column)):
            starts[c] = arith.muli(block, frame.scalar(frame.blocks[c]))
        for c in reversed([c for c in parallel if c not in (self.m, self.n)]):
            starts[c], left = _parted(left, frame.scalar(frame.sizes[c]))
        return starts

    def sums(self, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]) -> list[Value]:
        """The products' sums. `making` are the nodes that compute operands."""
        frame = self.writer.frame
        shape = whole.frame.shape([self.m, self.n])
        kinds = [node.op.results[0].type.element_type for node in self.products]
        size, block = frame.sizes[self.k], frame.blocks[self.k]
        rest = size % block if isinstance(size, int) and size > block and self._parts_loads() else 0
        end = size - rest
        loop = scf.ForOp(*map(frame.scalar, (0, end, block)), [tt.full(shape, kind, 0) for kind in kinds])
        with ir.InsertionPoint(loop.body):
            start, sums = loop.induction_variable, list(loop.inner_iter_args)
            scf.YieldOp(self._step(whole, starts | {self.k: start}, block, making, sums, end))
        sums = list(loop.results)
        if rest:
            block = max(power_at_least(rest), LEAST)
            sums = self._step(whole, starts | {self.k: frame.scalar(end)}, block, making, sums, size)
        return sums

    def _step(
        self,
        whole: KernelWriter,
        starts: dict[int, Value],
        block: int,
        making: set[ir.Operation],
        sums: Sequence[Value],
        end: Number,
    ) -> list[Value]:
        """The sums with the products of one block of K added, without elements from `end` on."""
        left, right = (self.made(side, whole, starts, making, {self.k: block}, {self.k: end}) for side in (0, 1))
        found, loaded = [], {}
        for node, total in zip(self.products, sums, strict=True):
            with node.op.location:
                for own, (value, classes) in zip((left, right), node.inputs, strict=True):
                    if (value, *classes) not in loaded:
                        loaded[value, *classes] = self.operand(own, value, classes)
                a, b = (loaded[value, *classes] for value, classes in node.inputs)
                found.append(tt.dot(a, b, total, precision_of(node.op)))
        return found

    def made(
        self,
        side: int,
        whole: KernelWriter,
        starts: dict[int, Value],
        making: set[ir.Operation],
        blocks: dict[int, int] | None = None,
        ends: dict[int, Number] | None = None,
    ) -> KernelWriter:
        """A writer on the block of the left (0) or right (1) factor that has computed the nodes which make the
        factor. `whole` has computed those outside the loop."""
        own = self.on([self.m, self.k] if side == 0 else [self.k, self.n], starts, blocks or {}, ends)
        own.blocks = dict(whole.blocks)
        for node in self.writer.nodes:
            if node.op in making and self.k in node.classes and own.frame.has(node.classes):
                own.emit(node)
        return own

    def operand(self, own: KernelWriter, value: Value, classes: list[int], *, ends_in_zeros: bool = False) -> Value:
        """The block of an operand, 0 beyond the end of K, where the other factor may be anything. A block from memory
        may be 0 wherever the operand ends."""
        shape = own.frame.shape(own.frame.axes)
        outside = own.frame.mask([self.k])
        if isinstance(value.owner, ir.Block):
            pointer, mask = own.pointer(value, classes), self._mask(own, value, classes)
            if mask is None:
                return stretched(tt.load(pointer), shape)
            pointer, mask = common_shape([pointer, mask])
            return stretched(tt.load(pointer, mask, 0 if ends_in_zeros or outside is not None else None), shape)
        block = stretched(own.value(value), shape)
        if outside is None:
            return block
        return arith.select(stretched(outside, shape), block, tt.full(shape_of(block), element_of(block), 0))

    def _mask(self, own: KernelWriter, value: Value, classes: list[int]) -> Value | None:
        """The mask of an operand's load. Elements beyond M or N may be anything."""
        fast, unit = self._along(value, classes), WIDE // byte_size(spelling_of(value))
        return rounded_mask(own.frame, classes, fast if fast in (self.m, self.n) else None, unit)

    def _parts_loads(self) -> bool:
        """Whether a mask at the end of K would split the 16 bytes of a load."""
        size = self.writer.frame.sizes[self.k]
        return any(
            isinstance(value.owner, ir.Block)
            and self._along(value, classes) == self.k
            and not self.writer.frame.scalars.divides(WIDE // byte_size(spelling_of(value)), size)
            for op in self.writer.nodes
            for value, classes in op.inputs
        )

    def _along(self, value: Value, classes: list[int]) -> int | None:
        writer = self.writer
        return along_rows(writer.frame, value, writer.pointers[value], classes, writer.strides[value])


def _halves(total: Value) -> tuple[Value, Value]:
    """The first half of the columns, and the second."""
    rows, columns = shape_of(total)
    return tt.split(tt.trans(tt.reshape(total, [rows, 2, columns // 2]), [0, 2, 1]))


def _widened(number: Value, frame: Frame) -> Value:
    """A number of a program or block in the type of positions."""
    return number if str(frame.index_type) == "i32" else arith.extsi(frame.index_type, number)


def _parted(number: Value, size: Value) -> tuple[Value, Value]:
    """The remainder and the quotient."""
    return arith.remsi(number, size), arith.divsi(number, size)


def precision_of(op: ir.Operation) -> str:
    """How exactly f32 is multiplied."""
    return PRECISION.find(op) or "ieee"
