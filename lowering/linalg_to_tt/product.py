"""Kernels of matrix products: a loop over K that adds up a block with tensor cores, and what follows from its result.

    acc = 0                                              one program: BLOCK_M x BLOCK_N of the result
    for k in 0..K step BLOCK_K:
        acc = tt.dot(a[BLOCK_M, BLOCK_K], b[BLOCK_K, BLOCK_N], acc)
    store(gelu(acc + bias))

Operands are blocks of their own two classes, [M, K] and [K, N]; what makes an operand is computed on these. Triton
finds by itself how they lie in memory. All else is on blocks [M, N].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.product import GENERIC_PRECISION, roles_of
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Value, blocks_along, common_shape, stretched

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node

#: Blocks along M whose programs run one after the other for each block along N: they share operands in the cache.
_GROUP = 8


def write_products(writer: KernelWriter, products: Sequence[Node], parallel: Sequence[int]) -> None:
    """Writes a kernel of `products`, which walk the same classes, and what else the writer's nodes are."""
    _Products(writer, products, *roles_of(products[0].op)).write(parallel)


@dataclass
class _Products:
    writer: KernelWriter
    products: Sequence[Node]
    m: int
    n: int
    k: int

    def write(self, parallel: Sequence[int]) -> None:
        frame = self.writer.frame
        frame.axes = [self.m, self.n]
        starts = self._starts(parallel)
        left, right = self._operand_writer([self.m, self.k]), self._operand_writer([self.k, self.n])
        for c, start in starts.items():
            for own, lacking in ((frame, None), (left.frame, self.n), (right.frame, self.m)):
                if c != lacking:
                    own.place(c, start)
        behind = {node.op for node in self.products}
        before = self.writer.needed(self.products)
        for node in self.writer.nodes:
            if node.op in before and node.op not in behind and self.k not in node.classes:
                self.writer.emit(node)
        sums = self._loop(left, right, before - behind)
        for node, total in zip(self.products, sums, strict=True):
            self.writer.blocks[node.op.results[0]] = total
        for node in self.writer.nodes:
            if node.op.results[0] not in self.writer.blocks and self.k not in node.classes:
                self.writer.emit(node)
        self.writer.store_all()

    def _operand_writer(self, axes: list[int]) -> KernelWriter:
        """A writer on blocks of an operand's classes."""
        frame = replace(self.writer.frame, positions={}, masks={})
        frame.axes = axes
        return replace(self.writer, frame=frame, blocks=self.writer.blocks, loaded={})

    def _starts(self, parallel: Sequence[int]) -> dict[int, Value]:
        """Where the program's block starts along each parallel class. Along M it is one of a group that moves along N
        together, so that a group's rows and a few columns are all that the programs of a while read."""
        frame = self.writer.frame
        left = tt.get_program_id(0)
        if str(frame.index_type) != "i32":
            left = arith.extsi(frame.index_type, left)
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

    def _loop(self, left: KernelWriter, right: KernelWriter, making: set[ir.Operation]) -> list[Value]:
        """The products' sums. `making` are the nodes that make operands."""
        frame = self.writer.frame
        shape = frame.shape([self.m, self.n])
        kinds = [node.op.results[0].type.element_type for node in self.products]
        bounds = [frame.scalar(number) for number in (0, frame.sizes[self.k], frame.blocks[self.k])]
        loop = scf.ForOp(*bounds, [tt.full(shape, kind, 0) for kind in kinds])
        with ir.InsertionPoint(loop.body):
            for own, other in ((left, self.n), (right, self.m)):
                own.frame.place(self.k, loop.induction_variable)
                own.blocks = dict(self.writer.blocks)
                for node in self.writer.nodes:
                    if node.op in making and self.k in node.classes and other not in node.classes:
                        own.emit(node)
            sums, loaded = [], {}
            for node, total in zip(self.products, loop.inner_iter_args, strict=True):
                with node.op.location:
                    for own, (value, classes) in zip((left, right), node.inputs, strict=True):
                        if (value, *classes) not in loaded:
                            loaded[value, *classes] = self._operand(own, value, classes)
                    a, b = (loaded[value, *classes] for value, classes in node.inputs)
                    sums.append(tt.dot(a, b, total, _precision(node.op)))
            scf.YieldOp(sums)
        return list(loop.results)

    def _operand(self, own: KernelWriter, value: Value, classes: list[int]) -> Value:
        """The block of an operand, 0 outside K: there is a factor beside it that may be anything."""
        shape = own.frame.shape(own.frame.axes)
        outside = own.frame.mask([self.k])
        if isinstance(value.owner, ir.Block):
            pointer, mask = own.pointer(value, classes), own.frame.mask(classes)
            if mask is None:
                return stretched(tt.load(pointer), shape)
            pointer, mask = common_shape([pointer, mask])
            return stretched(tt.load(pointer, mask, None if outside is None else 0), shape)
        block = stretched(own.value(value), shape)
        if outside is None:
            return block
        return arith.select(stretched(outside, shape), block, tt.full(shape_of(block), element_of(block), 0))


def _parted(number: Value, size: Value) -> tuple[Value, Value]:
    """The rest and the quotient."""
    return arith.remsi(number, size), arith.divsi(number, size)


def _precision(op: ir.Operation) -> str:
    precision: str = op.attributes[GENERIC_PRECISION].value if GENERIC_PRECISION in op.attributes else "ieee"
    return precision
