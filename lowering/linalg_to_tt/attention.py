"""Writes kernels of products by a softmax: a loop along the keys that keeps the maximum and the sum of each row.

    total = 0, peak = -inf, acc = 0                      one program: BLOCK_M queries, all columns of the values
    for n in first..last key that the block sees, step BLOCK_N:
        s = scores of the block                          its product with q loaded once, and what follows it
        new = max(peak, max(s))
        p = exp(s - new)
        acc = tt.dot(p, v, acc * exp(peak - new))
        total = total * exp(peak - new) + sum(p)
    store(acc / total)

The scores are those of a product in the same kernel with pointwise work on them, or are read from memory. As in
Milakov and Gimelshein: Online normalizer calculation for softmax, 2018, no row of scores is whole anywhere.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, math, scf
from cuesta.dialects import tt
from cuesta.dialects.product import SOFTMAX, roles_of
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.product import Products, precision_of
from cuesta.lowering.linalg_to_tt.seen_keys import bounds_of

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


def write_attention(writer: KernelWriter, products: Sequence[Node], parallel: Sequence[int], warps: int) -> None:
    """Writes a kernel of a product by a softmax, of the product of its scores if that is in the kernel, and of the
    writer's other nodes."""
    (weighted,) = (node for node in products if SOFTMAX.is_on(node.op))
    inner = [Products(writer, [node], *roles_of(node.op), warps) for node in products if node is not weighted]
    _Attention(writer, [weighted], *roles_of(weighted.op), warps, inner).write(parallel)


@dataclass
class _Attention(Products):
    #: The product of the scores, if the kernel computes them.
    inner: Sequence[Products]

    def sums(self, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]) -> list[Value]:
        frame, (node,) = self.writer.frame, self.products
        kind = node.op.results[0].type.element_type
        rows = whole.frame.shape([self.m])
        first = [tt.full(whole.frame.shape([self.m, self.n]), kind, 0)]
        first += [tt.full(rows, kind, -numbers.inf), tt.full(rows, kind, 0)]
        queries = [self._factor(product, 0, whole, starts, making) for product in self.inner]
        low, high = self._seen(starts)
        loop = scf.ForOp(low, high, frame.scalar(frame.blocks[self.k]), first)
        with ir.InsertionPoint(loop.body):
            here = starts | {self.k: loop.induction_variable}
            scf.YieldOp(self._block(whole, here, making, queries, list(loop.inner_iter_args)))
        sums, _, total = loop.results
        # A row that sees nothing has no weights, and is 0.
        nothing = arith.cmpf(arith.CmpFPredicate.OEQ, total, tt.full(rows, kind, 0))
        total = arith.select(nothing, tt.full(rows, kind, 1), total)
        return [arith.divf(sums, stretched(total, shape_of(sums)))]

    def _seen(self, starts: dict[int, Value]) -> tuple[Value, Value]:
        """Where the blocks of keys begin and end that some query of the program sees."""
        frame, (node,) = self.writer.frame, self.products
        (scores, _), _ = node.inputs
        low, high = frame.scalar(0), frame.scalar(frame.sizes[self.k])
        first = starts[self.m]
        last = arith.addi(first, frame.scalar(frame.blocks[self.m] - 1))
        for bound in bounds_of(self.writer.nodes, scores, self.m, self.k):
            key = bound.key(first, last, frame.scalar)
            if bound.is_lower:
                low = arith.maxsi(low, key)
            else:
                high = arith.minsi(high, arith.addi(key, frame.scalar(1)))
        width = frame.scalar(frame.blocks[self.k])
        return arith.muli(arith.divsi(low, width), width), high

    def is_outside(self, node: Node) -> bool:
        return not {self.k, *(product.k for product in self.inner)} & set(node.classes)

    def _factor(
        self, product: Products, side: int, whole: KernelWriter, starts: dict[int, Value], making: set[ir.Operation]
    ) -> Value:
        """The left (0) or right (1) factor of the product of scores: the queries, which are the same for all keys, or
        the block of keys at `starts`."""
        (node,) = product.products
        own = product.made(side, whole, starts | {product.k: self.writer.frame.scalar(0)}, making)
        value, classes = node.inputs[side]
        return product.operand(own, value, classes)

    def _block(
        self,
        whole: KernelWriter,
        starts: dict[int, Value],
        making: set[ir.Operation],
        queries: Sequence[Value],
        carried: Sequence[Value],
    ) -> list[Value]:
        """The sums, and the maximum and the total of each row's weights, after one block of keys."""
        sums, peak, total = carried
        (node,) = self.products
        (value, classes), (factor, factor_classes) = node.inputs
        left, right = self.on([self.m, self.k], starts, {}), self.made(1, whole, starts, making)
        self._make(left, whole, making, starts, queries)
        with node.op.location:
            scores = self._scores(left, value, classes, element_of(sums))
            highest = arith.maxnumf(peak, _reduced(scores, arith.maxnumf))
            # A row that has seen nothing yet has the maximum -inf, and -inf - -inf is NaN.
            lowest = tt.full(shape_of(highest), element_of(highest), -numbers.inf)
            none = arith.cmpf(arith.CmpFPredicate.OEQ, highest, lowest)
            base = arith.select(none, tt.full(shape_of(highest), element_of(highest), 0), highest)
            weights = math.exp(arith.subf(scores, stretched(base, shape_of(scores))))
            share = math.exp(arith.subf(peak, base))
            values = self.operand(right, factor, factor_classes)
            sums = arith.mulf(sums, stretched(share, shape_of(sums)))
            sums = tt.dot(_narrowed(weights, element_of(values)), values, sums, precision_of(node.op))
            total = arith.addf(arith.mulf(total, share), _reduced(weights, arith.addf))
        return [sums, highest, total]

    def _make(
        self,
        left: KernelWriter,
        whole: KernelWriter,
        making: set[ir.Operation],
        starts: dict[int, Value],
        queries: Sequence[Value],
    ) -> None:
        """Computes the nodes that make the scores of a block of keys."""
        left.blocks = dict(whole.blocks)
        products = {product.products[0].op: (product, q) for product, q in zip(self.inner, queries, strict=True)}
        for node in self.writer.nodes:
            if node.op in products:
                product, q = products[node.op]
                with node.op.location:
                    k = self._factor(product, 1, whole, starts, making)
                    nothing = tt.full(left.frame.shape([self.m, self.k]), node.op.results[0].type.element_type, 0)
                    left.blocks[node.op.results[0]] = tt.dot(q, k, nothing, precision_of(node.op))
            elif node.op in making and self.k in node.classes and left.frame.has(node.classes):
                left.emit(node)

    def _scores(self, left: KernelWriter, value: Value, classes: list[int], kind: ir.Type) -> Value:
        """The block of scores, -inf beyond the last key."""
        shape = left.frame.shape([self.m, self.k])
        block = left.load(value, classes) if isinstance(value.owner, ir.Block) else left.value(value)
        block = stretched(block, shape)
        if element_of(block) != kind:
            block = arith.extf(tt.block_type(shape, kind), block)
        outside = left.frame.mask([self.k])
        if outside is None:
            return block
        return arith.select(stretched(outside, shape), block, tt.full(shape, kind, -numbers.inf))


def _reduced(block: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Each row of a block [queries, keys] reduced, its dim kept with size 1."""
    (found,) = tt.reduce([block], 1, combine)
    return tt.expand_dims(found, 1)


def _narrowed(weights: Value, kind: ir.Type) -> Value:
    """Weights in the type of the values that they multiply, rounded as eager rounds them."""
    if element_of(weights) == kind:
        return weights
    return arith.truncf(tt.block_type(shape_of(weights), kind), weights)
