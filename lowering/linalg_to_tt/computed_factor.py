"""Writes kernels of a product whose left factor is computed in the kernel: a loop that computes a block of the factor
from other products, and multiplies it in the same turn. No element of the factor is in memory.

    acc = 0                                              one program: BLOCK_M rows, all columns of the result
    for k in first..last that some row needs, step BLOCK_K:
        f = pointwise work on tt.dot(q, kT), tt.dot(g, vT)     q and g are loaded once, their partners block by block
        acc = tt.dot(f, b, acc)
    store(acc)

Where a mask compares positions, the blocks that all rows of the program need whole have a loop of their own, without
the comparisons.

The gradients of attention are such products: that of queries has a loop along the keys, those of keys and values have
one along the queries, which they share: two products of the same rows, whose factors have a product in common, are one
kernel. Attention itself is a product whose factor is a softmax (attention.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.tt.types import element_of
from cuesta.lowering.linalg_to_tt.frame import Value, blocks_along, stretched
from cuesta.lowering.linalg_to_tt.product import Products, precision_of
from cuesta.lowering.linalg_to_tt.seen_by_tables import seen_by_tables
from cuesta.lowering.linalg_to_tt.seen_keys import Bound, Table, bounds_of, tables_of

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node

_Found = TypeVar("_Found", Bound, Table)


@dataclass(frozen=True)
class _Part:
    """A part of K: where its blocks begin and end, and which comparisons are known to hold there or not to."""

    low: Value
    high: Value
    known: Mapping[ir.Operation, bool]
    #: Whether it is one block, which needs no loop.
    is_one_block: bool = False


@dataclass
class _Turn:
    """What one turn of the loop has: the block of K at `starts`."""

    #: A writer that has computed what is outside the loop.
    whole: KernelWriter
    #: The ops that make the products' factors.
    making: set[ir.Operation]
    starts: dict[int, Value]
    #: The left factors of the inner products, by their ops, and the right ones so far.
    lefts: Mapping[ir.Operation, Value]
    rights: dict[ir.Operation, Value] = field(default_factory=dict)


@dataclass
class ComputedFactor(Products):
    """The product whose left factor is computed, with the classes of its M, N and K."""

    #: The products that the factors are computed from, if they are in the kernel.
    inner: Sequence[Products]
    #: Products of the same rows along the same K, which the same loop multiplies.
    beside: Sequence[ComputedFactor] = ()
    #: The classes of the columns of products beside this one. The writer has no nodes along them.
    others: Collection[int] = ()

    #: What the factor is where nothing is seen.
    hidden = 0.0

    @property
    def _all(self) -> tuple[ComputedFactor, ...]:
        return self, *self.beside

    def making(self) -> set[ir.Operation]:
        needed = [own.writer.needed(own.products) for own in self._all]
        return set().union(*needed) - {node.op for own in self._all for node in own.products}

    def sums(self, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]) -> list[Value]:
        lefts = {_op(product): self._factor(product, 0, whole, starts, making) for product in self.inner}
        carried = [own.carried(own._whole(own._at(starts))) for own in self._all]
        outside = _Turn(whole, making, starts, lefts)
        for part in self._parts(outside):
            carried = self._loop(part, outside, carried)
        return [total for own, last in zip(self._all, carried, strict=True) for total in own.results(last)]

    def finish(self, whole: KernelWriter, starts: dict[int, Value], sums: Sequence[Value]) -> None:
        for own, total in zip(self._all, sums, strict=True):
            at = own._at(starts)
            super(ComputedFactor, own).finish(whole if own is self else own._whole(at), at, [total])

    def _at(self, starts: Mapping[int, Value]) -> dict[int, Value]:
        """Where the product's block is, by the rows of a block of this product or one beside it. It has all columns."""
        return {c: at for c, at in starts.items() if c not in self.others} | {self.n: self.writer.frame.scalar(0)}

    def _whole(self, starts: dict[int, Value]) -> KernelWriter:
        """A writer on the result's block."""
        return self.on([self.m, self.n], starts, {})

    def _loop(self, part: _Part, outside: _Turn, carried: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Writes the loop along one part of K, or the step of its only block. Returns what is carried last for each
        product."""
        within = replace(self, writer=replace(self.writer, known=part.known))

        def turn(start: Value) -> _Turn:
            return replace(outside, starts=outside.starts | {self.k: start}, rights={})

        if part.is_one_block:
            return within._turn(turn(part.low), carried)
        width = self.writer.frame.scalar(self.writer.frame.blocks[self.k])
        loop = scf.ForOp(part.low, part.high, width, [*itertools.chain(*carried)])
        with ir.InsertionPoint(loop.body):
            found = within._turn(turn(loop.induction_variable), _parted(loop.inner_iter_args, carried))
            scf.YieldOp([*itertools.chain(*found)])
        return _parted(loop.results, carried)

    def _turn(self, turn: _Turn, carried: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """What is carried for each product after a turn. All factors are computed before the first is multiplied: on an
        H200 the gradients of keys and values took 3 to 12 percent longer with each multiplied at once."""
        left = self.on([self.m, self.k], turn.starts, {})
        left.blocks = dict(turn.whole.blocks)
        inner = {_op(product): product for product in self.inner}
        for node in self.writer.nodes:
            if node.op in inner:
                left.blocks[node.op.results[0]] = self._inner(inner[node.op], left, turn)
            elif node.op in turn.making and self.k in node.classes and left.frame.has(node.classes):
                left.emit(node)
        after = []
        for own, before in zip(self._all, carried, strict=True):
            with own.products[0].op.location:
                after.append(own.step(left, self._right(own, turn), before))
        return after

    def carried(self, whole: KernelWriter) -> list[Value]:
        """What the loop begins with: the sums."""
        (node,) = self.products
        return [tt.full(whole.frame.shape([self.m, self.n]), node.op.results[0].type.element_type, 0)]

    def _right(self, own: ComputedFactor, turn: _Turn) -> Value:
        """The block of the right operand of `own`, this product or one beside it."""
        shared = own._shared_with()
        if shared is not None:
            return tt.trans(self._inner_right(shared, turn), [1, 0])
        (node,) = own.products
        _, (value, classes) = node.inputs
        return own.operand(own.made(1, turn.whole, own._at(turn.starts), turn.making), value, classes)

    def _shared_with(self) -> Products | None:
        """The inner product whose right factor is this product's right operand, transposed: it is loaded once. Rows
        that are contiguous are loaded with masks that leave nothing but zeros beyond their ends."""
        (node,), blocks = self.products, self.writer.frame.blocks
        _, (value, classes) = node.inputs
        for product in self.inner if isinstance(value.owner, ir.Block) else ():
            _, (factor, factor_classes) = product.products[0].inputs
            same = factor == value and factor_classes == [product.k if c == self.n else c for c in classes]
            if same and blocks[product.k] == blocks[self.n] and product._along(factor, factor_classes) == product.k:
                return product
        return None

    def step(self, left: KernelWriter, values: Value, carried: Sequence[Value]) -> list[Value]:
        """What the loop carries after one block of K. `left` has computed the block's factor, which multiplies the
        block `values`."""
        (node,), (sums,) = self.products, carried
        (value, classes), _ = node.inputs
        return [tt.dot(self.block(left, value, classes), values, sums, precision_of(node.op))]

    def results(self, carried: list[Value]) -> list[Value]:
        """The products' sums, of what the loop carried last."""
        return carried

    def block(self, left: KernelWriter, value: Value, classes: list[int]) -> Value:
        """The block of the factor, `hidden` beyond the end of K."""
        shape = left.frame.shape([self.m, self.k])
        block = left.load(value, classes) if isinstance(value.owner, ir.Block) else left.value(value)
        block = stretched(block, shape)
        outside = left.frame.mask([self.k])
        if outside is None:
            return block
        return arith.select(stretched(outside, shape), block, tt.full(shape, element_of(block), self.hidden))

    def _parts(self, outside: _Turn) -> list[_Part]:
        """The parts of K that some row of the program needs, each in a loop of its own: those that all rows need whole,
        and what is before and behind them."""
        frame, first = self.writer.frame, outside.starts[self.m]
        ends = (first, arith.addi(first, frame.scalar(frame.blocks[self.m] - 1)), frame.scalar)
        bounds, tables = (self._of_all(find) for find in (bounds_of, tables_of))
        lower, upper = ([bound for bound in bounds if bound.is_lower == is_lower] for is_lower in (True, False))
        low, high, one = frame.scalar(0), frame.scalar(frame.sizes[self.k]), frame.scalar(1)
        if frame.sizes[self.k] == frame.blocks[self.k]:
            return [_Part(low, high, {}, is_one_block=True)]
        inner_low, inner_high = low, high
        for bound in lower:
            low = arith.maxsi(low, bound.key(*ends))
            inner_low = arith.maxsi(inner_low, bound.common_key(*ends))
        for bound in upper:
            high = arith.minsi(high, arith.addi(bound.key(*ends), one))
            inner_high = arith.minsi(inner_high, arith.addi(bound.common_key(*ends), one))
        if tables:
            low, high = seen_by_tables(self, tables, outside.whole, outside.starts, low, high)
        width = frame.scalar(frame.blocks[self.k])
        low = arith.muli(arith.divsi(low, width), width)
        known = {bound.op: bound.shows for bound in bounds}
        if not bounds or len(known) < len(bounds):  # an equation bounds both sides: no whole block meets it
            return [_Part(low, high, {})]
        above = arith.addi(inner_low, frame.scalar(frame.blocks[self.k] - 1))
        inner_low = arith.maxsi(low, arith.muli(arith.divsi(above, width), width)) if lower else low
        inner_high = arith.minsi(arith.muli(arith.divsi(inner_high, width), width), high) if upper else high
        inner_low = arith.minsi(inner_low, arith.maxsi(low, high))
        inner_high = arith.maxsi(inner_high, inner_low)
        before = [_Part(low, arith.minsi(inner_low, high), {})] if lower else []
        behind = [_Part(inner_high, high, {})] if upper else []
        return [*before, _Part(inner_low, inner_high, known), *behind]

    @property
    def factor(self) -> Value:
        """The left operand, which is computed, or the scores of a softmax."""
        (node,) = self.products
        (value, _), _ = node.inputs
        return value

    def _of_all(self, find: Callable[..., list[_Found]]) -> list[_Found]:
        """The bounds or tables that `find`, `bounds_of` or `tables_of`, finds for every factor."""
        found, *others = (find(own.writer.nodes, own.factor, own.m, own.k, own.hidden) for own in self._all)
        return [one for one in found if all(one in other for other in others)]

    def _starts(self, parallel: Sequence[int], left: Value) -> dict[int, Value]:
        """As for any product, but the last rows come first where an upper bound grows with the rows: the programs that
        begin last then have least to do."""
        starts, frame = super()._starts(parallel, left), self.writer.frame
        if any(not bound.is_lower and bound.slope > 0 for bound in self._of_all(bounds_of)):
            blocks = blocks_along(frame.sizes[self.m], frame.blocks[self.m])
            last = frame.scalar((blocks - 1) * frame.blocks[self.m])
            starts[self.m] = arith.subi(last, starts[self.m])
        return starts

    def is_outside(self, node: Node) -> bool:
        return not {self.k, *(product.k for product in self.inner)} & set(node.classes)

    def _factor(
        self, product: Products, side: int, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]
    ) -> Value:
        """The left (0) or right (1) factor of an inner product: the left one is the same for all of K, the right one is
        that of the block at `starts`."""
        (node,) = product.products
        own = product.made(side, whole, starts | {product.k: self.writer.frame.scalar(0)}, making)
        value, classes = node.inputs[side]
        shared = side == 1 and any(one._shared_with() is product for one in self._all)
        return product.operand(own, value, classes, ends_in_zeros=shared)

    def _inner(self, product: Products, left: KernelWriter, turn: _Turn) -> Value:
        """The block of an inner product."""
        (node,) = product.products
        with node.op.location:
            right = self._inner_right(product, turn)
            nothing = tt.full(left.frame.shape([self.m, self.k]), node.op.results[0].type.element_type, 0)
            return tt.dot(turn.lefts[node.op], right, nothing, precision_of(node.op))

    def _inner_right(self, product: Products, turn: _Turn) -> Value:
        """The right factor of an inner product, computed once a turn."""
        if _op(product) not in turn.rights:
            turn.rights[_op(product)] = self._factor(product, 1, turn.whole, turn.starts, turn.making)
        return turn.rights[_op(product)]


def _op(product: Products) -> ir.Operation:
    """The op of an inner product, which tells it from others: where keys and values are one tensor, two of them share a
    class along K."""
    (node,) = product.products
    return node.op


def _parted(values: Sequence[Value], like: Sequence[Sequence[Value]]) -> list[list[Value]]:
    """Values in parts of as many as those of `like` have."""
    left = iter(values)
    return [[*itertools.islice(left, len(part))] for part in like]
