"""Writes the loops of attention. For each block of keys: scores, running maximum, weights, and weighted values."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, scf, vector
from cuesta.dialects.kernel_attention import LANES
from cuesta.dialects.types import index_value
from cuesta.lowering.attention_to_loops.masks import MaskPanel
from cuesta.lowering.attention_to_loops.panel import Attention, Panel
from cuesta.lowering.attention_to_loops.vectors import Mask, larger, splat
from cuesta.lowering.linalg_to_loops.vector_loops import loop, scratch

Value: TypeAlias = ir.Value


def write_forward(op: ir.Operation) -> None:
    """Writes the loops of an attention op before the op."""
    attention = Attention.of(op, 0, 3)
    output, logsumexp = list(op.operands)[-2:]
    (batch, heads, _, depth), tile, width = attention.sizes, attention.tile, attention.width
    queries, total = (scratch([-(-n // LANES) * LANES, tile.queries]) for n in (depth, width))
    weights = scratch([tile.keys, tile.queries])
    last = scratch([1, tile.queries])
    mask_memory = None if attention.mask is None else MaskPanel.memory(attention.mask, tile.keys, tile.queries)
    tiles = attention.tiles([batch, heads, attention.panels], attention.work)
    with ir.InsertionPoint(tiles.body):
        b, h, i = tiles.induction_variables
        first = arith.muli(i, index_value(tile.queries))
        panel = Panel.of(attention, b, h, arith.divui(h, index_value(attention.group)), first, mask_memory)
        _Forward(panel, queries, weights, total, last).write(output, logsumexp)
        scf.InParallelOp()


class _Forward:
    """Computes the output of a panel of queries."""

    def __init__(self, panel: Panel, queries: Value, weights: Value, total: Value, last: Value) -> None:
        self.panel, self.queries, self.weights, self.total, self.last = panel, queries, weights, total, last
        self.vectors = panel.op.vectors

    def write(self, output: Value, logsumexp: Value) -> None:
        panel, width = self.panel, self.vectors
        scale = splat(panel.op.scale)
        panel.turn(panel.op.q, self.queries, lambda x, d, m: arith.mulf(x, scale))
        nothing = [splat(0.0)] * width
        loop(0, panel.op.width, 1, lambda d: panel.store_row(nothing, self.total, d))
        limits = panel.limits()
        start = [splat(-numbers.inf)] * width + nothing
        state = panel.key_blocks(lambda first, count, *s: self._block(first, count, limits, s), start)
        peak, total = state[:width], state[width:]
        # The output of a query that sees no keys is 0, as in ATen's kernel.
        safe = [arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, t, splat(0.0)), splat(1.0), t) for t in total]
        zero = index_value(0)
        panel.store_row([arith.addf(x, math.log(t)) for x, t in zip(peak, total, strict=True)], self.last, zero)
        panel.write_each(self.last, logsumexp)
        panel.store_row([arith.divf(splat(1.0), t) for t in safe], self.last, zero)
        panel.turn_back(self.total, output, lambda x, m: arith.mulf(x, Mask().load(self.last, [zero, m])))

    def _block(self, first: Value, count: Value, limits: Sequence[Value] | None, state: Sequence[Value]) -> list[Value]:
        """Updates the running maxima and sums of weights for a block of keys, and adds its share of the output."""
        panel, width = self.panel, self.vectors

        def rows(row: Value, *peak: Value) -> list[Value]:
            found = panel.scores(first, row, self.queries, limits)
            best = list(peak)
            for r, scores in enumerate(found):
                panel.store_row(scores, self.weights, arith.addi(row, index_value(r)))
                best = [larger(x, y) for x, y in zip(scores, best, strict=True)]
            return best

        before, totals = state[:width], state[width:]
        peak = loop(0, count, panel.op.tile.rows, rows, before)
        # A query that has seen no key yet has the maximum -inf, and -inf - -inf is NaN.
        base = [arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, x, splat(-numbers.inf)), splat(0.0), x) for x in peak]
        old = [math.exp(arith.subf(x, y)) for x, y in zip(before, base, strict=True)]

        def weigh(row: Value, *so_far: Value) -> list[Value]:
            scores = panel.load_row(self.weights, row)
            found = [math.exp(arith.subf(x, y)) for x, y in zip(scores, base, strict=True)]
            panel.store_row(found, self.weights, row)
            return [arith.addf(x, y) for x, y in zip(so_far, found, strict=True)]

        added = loop(0, count, 1, weigh, [splat(0.0)] * width)
        totals = [vector.fma(x, y, z) for x, y, z in zip(totals, old, added, strict=True)]
        panel.add_values(panel.op.v, first, count, self.weights, self.total, old)
        return [*peak, *totals]
