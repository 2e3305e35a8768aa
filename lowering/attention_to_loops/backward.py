"""Writes the loops for the gradients of attention. A tile is a head of k and v; its gradients are sums over the
queries, added in a fixed order.

Weights are recomputed from the logsumexp. For a panel of queries and a block of keys:

    p = exp(k · q - lse)      dv += p · grad                      rows of keys
    ds = p * (v · grad - delta) * scale
                              dk += ds · q,  dq += k · ds         delta[m] = sum over d of grad * output
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, memref, scf, vector
from cuesta.dialects.kernel_attention import LANES, ROWS
from cuesta.dialects.types import index_value
from cuesta.lowering.attention_to_loops.masks import MaskPanel
from cuesta.lowering.attention_to_loops.panel import Attention, Panel, extent, four_sizes
from cuesta.lowering.attention_to_loops.vectors import (
    Mask,
    plus,
    splat,
    sums,
)
from cuesta.lowering.linalg_to_loops.vector_loops import blocks, loop, scratch

Value: TypeAlias = ir.Value

#: Vectors of a gradient's row whose sums are in registers at the same time, for each of ROWS keys.
_VECTORS = 4


@dataclass(frozen=True)
class _Buffers:
    """Scratch memory of a tile's loops: [D, M], [Dv, M], [max(D, Dv), M], two of [keys, M], and [1, M]."""

    queries: Value
    gradients: Value
    total: Value
    weights: Value
    scores: Value
    logsumexp: Value


def write_backward(op: ir.Operation) -> None:
    """Writes the loops of an attention gradient before the op."""
    attention = Attention.of(op, 1, 6)
    (batch, _, _, depth), tile = attention.sizes, attention.tile
    sizes = (
        [-(-n // LANES) * LANES for n in (depth, attention.width, max(depth, attention.width))] + [tile.keys] * 2 + [1]
    )
    buffers = _Buffers(*(scratch([n, tile.queries]) for n in sizes))
    memory = None if attention.mask is None else MaskPanel.memory(attention.mask, tile.keys, tile.queries)
    tiles = attention.tiles([batch, attention.kv_heads], attention.work * 5 // 2)
    with ir.InsertionPoint(tiles.body):
        b, kv_head = tiles.induction_variables
        _, dk, dv = list(op.operands)[-3:]
        for gradient in (dk, dv):
            _clear(gradient, b, kv_head)

        def panel(head: Value, i: Value) -> None:
            first = arith.muli(i, index_value(tile.queries))
            _Backward(Panel.of(attention, b, head, kv_head, first, memory), op, buffers).write()

        low = arith.muli(kv_head, index_value(attention.group))
        heads, panels = plus(low, attention.group), extent(attention.panels)
        loop(low, heads, 1, lambda head: loop(0, panels, 1, lambda i: panel(head, i)))
        scf.InParallelOp()


def _clear(gradient: Value, batch: Value, head: Value) -> None:
    _, _, rows, depth = four_sizes(gradient)

    def part(row: Value, d: Value, masks: Sequence[Mask]) -> None:
        for j, mask in enumerate(masks):
            mask.store(splat(0.0), gradient, [batch, head, row, plus(d, j * LANES)])

    loop(0, extent(rows), 1, lambda row: _across(depth, lambda d, masks: part(row, d, masks)))


def _across(depth: int, body: Callable[[Value, list[Mask]], None]) -> None:
    """Calls `body(first element, masks)` for each group of up to _VECTORS vectors of a row. The last vector may be
    masked."""

    def part(first: Value, count: int, _: Value | None) -> None:
        body(first, [Mask.of_first(count - j) for j in range(0, count, LANES)])

    blocks(depth, _VECTORS * LANES, part)


class _Backward:
    """Adds the contribution of a panel of queries to the gradients."""

    def __init__(self, panel: Panel, op: ir.Operation, buffers: _Buffers) -> None:
        self.panel, self.buffers = panel, buffers
        self.grad, self.output, self.logsumexp = op.operands[0], op.operands[4], op.operands[5]
        self.dq, self.dk, self.dv = list(op.operands)[-3:]
        self.scale = splat(panel.op.scale)

    def write(self) -> None:
        panel, buffers = self.panel, self.buffers
        width, zero = panel.op.vectors, index_value(0)
        panel.turn(panel.op.q, buffers.queries, lambda x, d, m: arith.mulf(x, self.scale))
        panel.turn(self.grad, buffers.gradients)
        delta = self._delta()
        panel.read_each(self.logsumexp, buffers.logsumexp)
        lse = panel.load_row(buffers.logsumexp, zero)
        # A query that sees no keys has the logsumexp -inf, and all its weights are 0.
        lse = [arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, splat(-numbers.inf)), splat(0.0), x) for x in lse]
        nothing = [splat(0.0)] * width
        loop(0, panel.op.sizes[3], 1, lambda d: panel.store_row(nothing, buffers.total, d))
        limits = panel.limits()
        panel.key_blocks(lambda first, count: self._block(first, count, limits, lse, delta))
        panel.turn_back(buffers.total, self.dq)

    def _delta(self) -> list[Value]:
        """The sum of grad * output over each query's row. The sum has the order of the products grad * value: with a
        single key both are exactly equal. Uses the memory `total`, which later holds dq."""
        panel, buffers = self.panel, self.buffers
        panel.turn(self.output, buffers.total)

        def add(d: Value, *totals: Value) -> list[Value]:
            pairs = zip(panel.load_row(buffers.gradients, d), panel.load_row(buffers.total, d), strict=True)
            return [vector.fma(x, y, t) for t, (x, y) in zip(totals, pairs, strict=True)]

        return loop(0, panel.op.width, 1, add, [splat(0.0)] * panel.op.vectors)

    def _block(
        self,
        first: Value,
        count: Value,
        limits: Sequence[Value] | None,
        lse: Sequence[Value],
        delta: Sequence[Value],
    ) -> None:
        """Adds the contribution of a block of keys to the gradients."""
        panel, buffers = self.panel, self.buffers

        def rows(row: Value) -> None:
            places = [plus(row, r) for r in range(panel.op.tile.rows)]
            for at, scores in zip(places, panel.scores(first, row, buffers.queries, limits), strict=True):
                found = [math.exp(arith.subf(x, y)) for x, y in zip(scores, lse, strict=True)]
                panel.store_row(found, buffers.weights, at)
            keys = panel.places(arith.addi(first, row), panel.op.tile.rows)
            for at, changes in zip(places, panel.products(panel.op.v, keys, buffers.gradients), strict=True):
                weights = panel.load_row(buffers.weights, at)
                found = [
                    arith.mulf(arith.mulf(w, self.scale), arith.subf(x, y))
                    for w, x, y in zip(weights, changes, delta, strict=True)
                ]
                panel.store_row(found, buffers.scores, at)

        loop(0, count, panel.op.tile.rows, rows)
        self._add_rows(self.dv, buffers.weights, self.grad, first, count)
        self._add_rows(self.dk, buffers.scores, panel.op.q, first, count)
        panel.add_values(panel.op.k, first, count, buffers.scores, buffers.total, None)

    def _add_rows(self, target: Value, weights: Value, source: Value, first: Value, count: Value) -> None:
        """target[key, d] += the sum over the panel's queries of weights[key, m] * source[m, d]."""
        panel = self.panel

        def part(row: Value, d: Value, masks: Sequence[Mask]) -> None:
            keys = panel.places(arith.addi(first, row), ROWS)
            columns = [plus(d, j * LANES) for j in range(len(masks))]
            found = sums(
                len(keys),
                len(masks),
                panel.count(),
                lambda r, m: memref.load(weights, [plus(row, r), m]),
                lambda j, m: masks[j].load(source, [panel.batch, panel.head, arith.addi(panel.first, m), columns[j]]),
            )
            # Keys past the end repeat the last key with weights of 0. So keys are added one after the other.
            for key, values in zip(keys, found, strict=True):
                for x, mask, column in zip(values, masks, columns, strict=True):
                    at = [panel.batch, panel.kv_head, key, column]
                    mask.store(arith.addf(mask.load(target, at), x), target, at)

        depth = four_sizes(target)[3]
        loop(0, count, ROWS, lambda row: _across(depth, lambda d, masks: part(row, d, masks)))
