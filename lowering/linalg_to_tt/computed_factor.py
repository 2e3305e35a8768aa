"""Writes kernels of a product whose left factor is computed in the kernel: a loop that computes a block of the factor
from other products, and multiplies it at once. No element of the factor is in memory.

    acc = 0                                              one program: BLOCK_M rows, all columns of the result
    for k in first..last that some row needs, step BLOCK_K:
        f = pointwise work on tt.dot(q, kT), tt.dot(g, vT)     q and g are loaded once, their partners block by block
        acc = tt.dot(f, b, acc)
    store(acc)

Where a mask compares positions, the blocks that all rows of the program need whole have a loop of their own, without
the comparisons.

The gradients of attention are such products: that of queries has a loop along the keys, those of keys and values have
one along the queries. Attention itself is one whose factor is a softmax (attention.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.tt.types import element_of
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.product import Products, precision_of
from cuesta.lowering.linalg_to_tt.seen_keys import bounds_of

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


@dataclass(frozen=True)
class _Part:
    """A part of K: where its blocks begin and end, and which comparisons are known to hold there or not to."""

    low: Value
    high: Value
    known: Mapping[ir.Operation, bool]
    #: Whether it is one block, which needs no loop.
    is_one_block: bool = False


@dataclass
class ComputedFactor(Products):
    """The product whose left factor is computed, with the classes of its M, N and K."""

    #: The products that the factor is computed from, if they are in the kernel.
    inner: Sequence[Products]

    #: What the factor is where nothing is seen.
    hidden = 0.0

    def sums(self, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]) -> list[Value]:
        lefts = [self._factor(product, 0, whole, starts, making) for product in self.inner]
        carried = self.carried(whole)
        for part in self._parts(starts):
            carried = self._loop(part, whole, starts, making, lefts, carried)
        return self.results(carried)

    def _loop(
        self,
        part: _Part,
        whole: KernelWriter,
        starts: dict[int, Value],
        making: set[ir.Operation],
        lefts: Sequence[Value],
        carried: Sequence[Value],
    ) -> list[Value]:
        """Writes the loop along one part of K, or the step of its only block; returns what is carried last."""
        (node,), frame = self.products, self.writer.frame
        within = replace(self, writer=replace(self.writer, known=part.known))

        def turn(start: Value, carried: Sequence[Value]) -> list[Value]:
            here = starts | {self.k: start}
            left, right = within.on([self.m, self.k], here, {}), within.made(1, whole, here, making)
            within._make(left, whole, making, here, lefts)
            with node.op.location:
                return self.step(left, right, carried)

        if part.is_one_block:
            return turn(part.low, carried)
        loop = scf.ForOp(part.low, part.high, frame.scalar(frame.blocks[self.k]), list(carried))
        with ir.InsertionPoint(loop.body):
            scf.YieldOp(turn(loop.induction_variable, list(loop.inner_iter_args)))
        return list(loop.results)

    def carried(self, whole: KernelWriter) -> list[Value]:
        """What the loop begins with: the sums."""
        (node,) = self.products
        return [tt.full(whole.frame.shape([self.m, self.n]), node.op.results[0].type.element_type, 0)]

    def step(self, left: KernelWriter, right: KernelWriter, carried: Sequence[Value]) -> list[Value]:
        """What the loop carries after one block of K. `left` has computed the block's factor, `right` what its right
        operand is made of."""
        (node,), (sums,) = self.products, carried
        (value, classes), (factor, factor_classes) = node.inputs
        values = self.operand(right, factor, factor_classes)
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

    def _parts(self, starts: dict[int, Value]) -> list[_Part]:
        """The parts of K that some row of the program needs, each in a loop of its own: those that all rows need whole,
        and what is before and behind them."""
        frame, (node,) = self.writer.frame, self.products
        (factor, _), _ = node.inputs
        first = starts[self.m]
        ends = (first, arith.addi(first, frame.scalar(frame.blocks[self.m] - 1)), frame.scalar)
        bounds = bounds_of(self.writer.nodes, factor, self.m, self.k, self.hidden)
        lower, upper = ([bound for bound in bounds if bound.is_lower == is_lower] for is_lower in (True, False))
        low, high, one = frame.scalar(0), frame.scalar(frame.sizes[self.k]), frame.scalar(1)
        if not bounds:
            return [_Part(low, high, {}, is_one_block=frame.sizes[self.k] == frame.blocks[self.k])]
        inner_low, inner_high = low, high
        for bound in lower:
            low = arith.maxsi(low, bound.key(*ends))
            inner_low = arith.maxsi(inner_low, bound.common_key(*ends))
        for bound in upper:
            high = arith.minsi(high, arith.addi(bound.key(*ends), one))
            inner_high = arith.minsi(inner_high, arith.addi(bound.common_key(*ends), one))
        width = frame.scalar(frame.blocks[self.k])
        low = arith.muli(arith.divsi(low, width), width)
        known = {bound.op: bound.shows for bound in bounds}
        if len(known) < len(bounds):  # an equation bounds both sides: no whole block meets it
            return [_Part(low, high, {})]
        above = arith.addi(inner_low, frame.scalar(frame.blocks[self.k] - 1))
        inner_low = arith.maxsi(low, arith.muli(arith.divsi(above, width), width)) if lower else low
        inner_high = arith.muli(arith.divsi(inner_high, width), width) if upper else high
        inner_low = arith.minsi(inner_low, arith.maxsi(low, high))
        inner_high = arith.maxsi(inner_high, inner_low)
        before = [_Part(low, arith.minsi(inner_low, high), {})] if lower else []
        behind = [_Part(inner_high, high, {})] if upper else []
        return [*before, _Part(inner_low, inner_high, known), *behind]

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
        return product.operand(own, value, classes)

    def _make(
        self,
        left: KernelWriter,
        whole: KernelWriter,
        making: set[ir.Operation],
        starts: dict[int, Value],
        lefts: Sequence[Value],
    ) -> None:
        """Computes the nodes that make the factor's block at `starts`; `lefts` are the inner products' left factors."""
        left.blocks = dict(whole.blocks)
        products = {product.products[0].op: (product, q) for product, q in zip(self.inner, lefts, strict=True)}
        for node in self.writer.nodes:
            if node.op in products:
                product, q = products[node.op]
                with node.op.location:
                    k = self._factor(product, 1, whole, starts, making)
                    nothing = tt.full(left.frame.shape([self.m, self.k]), node.op.results[0].type.element_type, 0)
                    left.blocks[node.op.results[0]] = tt.dot(q, k, nothing, precision_of(node.op))
            elif node.op in making and self.k in node.classes and left.frame.has(node.classes):
                left.emit(node)
