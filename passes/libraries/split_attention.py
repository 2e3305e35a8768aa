"""Makes kernels of attention of few queries, the keys split among programs; a part of call-libraries.

    %o, %lse = cuesta.attention(%q, %k, %v)          32 heads of one query, 8 heads of 1024 keys
      →
    %s = cuesta.mm(%q, %k^T) {product}               [8, 16 parts, 4, 64]: 4 heads read the same keys
    %r, %l = cuesta.softmax_mm(%s * scale, %v)       attention of each part, and the logsumexp of its rows
    %w = cuesta.softmax(%l)                          along the parts: what each part weighs
    %o = cuesta.sum(%r * %w)

A text that is made token by token has one query for each head. A program for each head, as a library's kernel for long
sequences has, leaves most of a GPU idle, and reads the keys again for each head that shares them. Here the parts are
one more batch dim, so that form-kernels makes one kernel of the first two ops and what is between them, and a small one
of the last two (Flash-Decoding by Dao et al., 2023, has the same two).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta.attention import Attention
from cuesta.dialects.cuesta.contraction import SoftmaxMatMul
from cuesta.dialects.cuesta.normalisation import Softmax
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import LEAST, Tile
from cuesta.dialects.types import opmath, shape_of, spelling_of, static_shape, tensor
from cuesta.passes.infra.graph_rewrite import functions, named, replace, users
from cuesta.passes.libraries.products.computed_factors import multiplied
from cuesta.sizes.powers import power_at_least

_B = GraphBuilder()
#: The most rows of a program: the queries of all heads that share a head of keys. More fill a block of their own.
_MOST_ROWS = LEAST
#: The largest head.
_LARGEST = 256
#: Keys of a block, and of the smallest part; warps, and stages of the loop along the keys.
_KEYS, _WARPS, _STAGES = 64, 4, 3
#: Programs that are wanted: one or two for each multiprocessor.
_PROGRAMS = 256


def split_attention(module: ir.Module, kinds: Collection[str]) -> None:
    """Rewrites a module's attention of few queries whose operands have one of the types `kinds`."""
    for function in functions(module):
        for view in list(function.regions[0].blocks[0].operations):
            op = view.operation
            if Attention.matches(op) and (split := _Split.of(op, kinds)) is not None:
                with ir.InsertionPoint(op), named("attention", op):
                    replace(op, [split.output(), op.results[1]])


@dataclass(frozen=True)
class _Split:
    """An attention op, and its sizes."""

    op: ir.Operation
    batch: int
    #: Heads of the keys, and the heads of queries that share each of them.
    heads: int
    shared: int
    queries: int
    parts: int
    #: Keys of a part.
    keys: int
    #: Elements of a head of the queries and keys, and of the values.
    depth: int
    columns: int

    @staticmethod
    def of(op: ir.Operation, kinds: Collection[str]) -> _Split | None:
        """The split of an op; None where the library's kernel stays."""
        q, k, v, *mask = op.operands
        types = {spelling_of(x) for x in (q, k, v)}
        if len(types) > 1 or not types <= {*kinds} or Attention.causal.of(op) or users(op.results[1]):
            return None
        if not all(isinstance(n, int) for x in op.operands for n in shape_of(x)):
            return None
        sizes = [static_shape(x) for x in op.operands]
        (batch, heads, queries, depth), (_, groups, keys, _), (*_, columns) = sizes[:3]
        rows = heads // groups * queries
        if rows > _MOST_ROWS or not LEAST <= min(depth, columns) <= max(depth, columns) <= _LARGEST or keys < _KEYS:
            return None
        if mask and (not 1 <= len(sizes[3]) <= 4 or sizes[3][-1] != keys):
            return None
        wanted = max(1, min(_PROGRAMS // (batch * groups), keys // _KEYS))
        parts = next(n for n in range(wanted, 0, -1) if keys % n == 0)
        return _Split(op, batch, groups, heads // groups, queries, parts, keys // parts, depth, columns)

    def output(self) -> ir.Value:
        """The attention's output, in kernels."""
        q, k, v, *mask = self.op.operands
        batch, rows = [self.batch, self.heads, self.parts], self.shared * self.queries
        depth, columns = self.depth, self.columns
        q = _B.reshape(q, [self.batch, self.heads, 1, rows, depth])
        if rows == 1:  # a product has two rows: the second repeats the first
            rows = 2
        q = _B.expand(q, [*batch, rows, depth])
        k = _B.permute(_B.reshape(k, [*batch, self.keys, depth]), [0, 1, 2, 4, 3])
        scores = multiplied(q, k, [*batch, rows, depth], [*batch, depth, self.keys], self._tile(_KEYS, depth))
        scores = _B.with_number("mul", scores, Attention.scale.of(self.op))
        if mask:
            scores = self._masked(scores, mask[0])
        kind = opmath(spelling_of(v))
        sizes = [tensor([*batch, rows, columns], kind), tensor([*batch, rows], kind)]
        values = _B.reshape(v, [*batch, self.keys, columns])
        made = SoftmaxMatMul(scores, values, str(self._tile(columns, _KEYS)), True, *sizes)
        rows = self.shared * self.queries
        output = self._added(*(_B.slice(x, 3, 0, rows) for x in (made.result, made.logsumexp)))
        (result, _) = self.op.results
        return _B.reshape(_B.convert(output, spelling_of(result)), shape_of(result))

    def _added(self, outputs: ir.Value, logsumexps: ir.Value) -> ir.Value:
        """The outputs of all parts added up, each weighted by its part of the sum of the exponentials. The weights have
        the columns of the outputs, so that all of it has the loops of one kernel."""
        if self.parts > 1:
            logsumexps = _B.expand(_B.reshape(logsumexps, [*shape_of(logsumexps), 1]), shape_of(outputs))
            outputs = _B.pointwise("mul", outputs, Softmax(logsumexps, 2, True, outputs.type).result)
        return _B.reduce("sum", outputs, [2])

    def _masked(self, scores: ir.Value, mask: ir.Value) -> ir.Value:
        """The scores under a mask, which is seen as [batch, heads, parts, rows, keys], or 1 where it is the same."""
        *before, heads, queries, _ = (1, 1, *shape_of(mask))[-4:]
        batch = before[0]
        split = [self.parts, self.keys]
        if heads == 1:
            mask = _B.permute(_B.reshape(mask, [batch, 1, queries, *split]), [0, 1, 3, 2, 4])
            if queries > 1:  # the same for each of the heads that share keys
                mask = _B.reshape(mask, [batch, 1, self.parts, 1, queries, self.keys])
                mask = _B.expand(mask, [batch, 1, self.parts, self.shared, queries, self.keys])
                mask = _B.reshape(mask, [batch, 1, self.parts, self.shared * queries, self.keys])
        else:
            mask = _B.expand(_B.reshape(mask, [batch, heads, queries, *split]), [batch, heads, self.queries, *split])
            mask = _B.reshape(mask, [batch, self.heads, self.shared * self.queries, *split])
            mask = _B.permute(mask, [0, 1, 3, 2, 4])
        if spelling_of(mask) == "i1":
            return _B.where(mask, scores, _B.constant(-math.inf, spelling_of(scores)))
        return _B.pointwise("add", scores, _B.convert(mask, spelling_of(scores)))

    def _tile(self, columns: int, depth: int) -> Tile:
        rows = power_at_least(max(LEAST, self.shared * self.queries))
        return Tile(rows, power_at_least(columns), power_at_least(depth), _WARPS, _STAGES)
