"""Writes kernels of products by a softmax: a loop along the keys that keeps the maximum and the sum of each row.

    total = 0, peak = -inf, acc = 0                      one program: BLOCK_M queries, all columns of the values
    for n in first..last key that the block sees, step BLOCK_N:
        s = scores of the block                          its product with q loaded once, and what follows it
        new = max(peak, max(s))
        p = exp(s - new)
        acc = tt.dot(p, v, acc * exp(peak - new))
        total = total * exp(peak - new) + sum(p)
    store(acc / total), store(peak + log(total))

The scores are those of a product in the same kernel with pointwise work on them, or are read from memory. As in
Milakov and Gimelshein: Online normalizer calculation for softmax, 2018, no row of scores is whole anywhere.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, math
from cuesta.dialects import tt
from cuesta.dialects.product import COMPUTED, FACTOR, SAFE_SOFTMAX, roles_of
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.computed_factor import ComputedFactor
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.narrow_math import are_narrow
from cuesta.lowering.linalg_to_tt.product import Products, precision_of

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node


def write_computed_factor(writer: KernelWriter, products: Sequence[Node], parallel: Sequence[int], warps: int) -> None:
    """Writes a kernel of products whose left factors are a softmax or are computed, of the products that they are
    computed from, if they are in the kernel, and of the writer's other nodes."""
    factors = [value.type.element_type for node in products for value, _ in node.inputs[-1:]]
    writer = replace(writer, narrow=are_narrow(factors))
    chiefs = {roles_of(node.op)[1]: node for node in products if FACTOR.is_on(node.op)}
    inner = [Products(writer, [node], *roles_of(node.op), warps) for node in products if node not in chiefs.values()]

    def made(n: int) -> ComputedFactor:
        chief, others = chiefs[n], {*chiefs} - {n}
        kind = ComputedFactor if FACTOR.of(chief.op) == COMPUTED else _Attention
        own = replace(writer, nodes=[node for node in writer.nodes if not others & {*node.classes}])
        return kind(own, [chief], *roles_of(chief.op), warps, inner, others=others)

    first, *others = map(made, chiefs)
    first.beside = others
    first.write([c for c in parallel if c not in first.others])


@dataclass
class _Attention(ComputedFactor):
    hidden = -numbers.inf
    #: Once the loop is written: the logsumexp of each row.
    logsumexp: Value = field(init=False)

    def carried(self, whole: KernelWriter) -> list[Value]:
        """The sums, and the maximum and the total of each row's weights."""
        (sums,) = super().carried(whole)
        rows, kind = whole.frame.shape([self.m]), element_of(sums)
        return [sums, tt.full(rows, kind, -numbers.inf), tt.full(rows, kind, 0)]

    def step(self, left: KernelWriter, values: Value, carried: Sequence[Value]) -> list[Value]:
        sums, peak, total = carried
        (node,) = self.products
        (value, classes), _ = node.inputs
        scores = self.block(left, value, classes)
        if element_of(scores) != element_of(sums):
            scores = arith.extf(tt.block_type(shape_of(scores), element_of(sums)), scores)
        highest = arith.maxnumf(peak, _reduced(scores, arith.maxnumf))
        base = _or_zero(highest)
        weights = math.exp(arith.subf(scores, stretched(base, shape_of(scores))))
        share = math.exp(arith.subf(peak, base))
        sums = arith.mulf(sums, stretched(share, shape_of(sums)))
        sums = tt.dot(_narrowed(weights, element_of(values)), values, sums, precision_of(node.op))
        total = arith.addf(arith.mulf(total, share), _reduced(weights, arith.addf))
        return [sums, highest, total]

    def results(self, carried: list[Value]) -> list[Value]:
        (node,), (sums, peak, total) = self.products, carried
        self.logsumexp = arith.addf(_or_zero(peak), math.log(total))
        if FACTOR.of(node.op) == SAFE_SOFTMAX:
            # A row that sees nothing has no weights, and is 0.
            nothing = arith.cmpf(arith.CmpFPredicate.OEQ, total, tt.full(shape_of(total), element_of(total), 0))
            total = arith.select(nothing, tt.full(shape_of(total), element_of(total), 1), total)
        return [arith.divf(sums, stretched(total, shape_of(sums)))]

    def follow(self, writer: KernelWriter, sums: Sequence[Value]) -> None:
        (node,) = self.products
        writer.blocks.update(zip(node.op.results[1:], [self.logsumexp], strict=False))
        super().follow(writer, sums)


def _or_zero(highest: Value) -> Value:
    """The maximum of each row, 0 where it is -inf: a row that has seen nothing yet, and -inf - -inf is NaN."""
    lowest = tt.full(shape_of(highest), element_of(highest), -numbers.inf)
    none = arith.cmpf(arith.CmpFPredicate.OEQ, highest, lowest)
    return arith.select(none, tt.full(shape_of(highest), element_of(highest), 0), highest)


def _reduced(block: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Each row of a block [queries, keys] reduced, its dim kept with size 1."""
    (found,) = tt.reduce([block], 1, combine)
    return tt.expand_dims(found, 1)


def _narrowed(weights: Value, kind: ir.Type) -> Value:
    """Weights in the type of the values that they multiply, rounded as eager rounds them."""
    if element_of(weights) == kind:
        return weights
    return arith.truncf(tt.block_type(shape_of(weights), kind), weights)
