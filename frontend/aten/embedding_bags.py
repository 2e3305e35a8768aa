"""Sums, means and maxima of bags of a table's rows.

Bags of one length, as those of a matrix of indices are, are joined in the kernel that reads the rows. Others are as
long as the offsets say: each row's maximum with what its bag has so far is written there; sums and means are ATen's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import int_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.module_target import on_cpu
from cuesta.dialects.types import SPELLING, element, opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import joined
from cuesta.frontend.aten.positions import index_into, write_at
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number

Value: TypeAlias = ir.Value

SUM, MEAN, MAX = range(3)

#: Rows of equal bags beyond which they are a dim that is reduced: up to it each is an operand of the kernel.
_MOST_ROWS = 32
#: Columns below which that reduction is ATen's on a CPU. Measured: with 16 it took 14 to 22 times as long as ATen's,
#: with 32 and more 0.4 to 2.3.
_FEWEST_COLUMNS = 32
#: A reduction → (the pointwise op, the way to write) that joins two of its operands.
_JOIN = {"sum": ("add", "add"), "amax": ("maximum", "max"), "amin": ("minimum", "min")}


@dataclass(frozen=True)
class _Bags:
    """`count` bags of `rows` rows. What is of the rows comes in `length` parts, for equal bags of few, each [count];
    for equal bags of many in one part [count, length]; for others, of length 0, in one part [rows]."""

    b: GraphBuilder
    count: Number
    rows: Number
    length: int
    #: the bag of each row; `count` for those behind the last one
    place: Value

    def parts(self, x: Value) -> list[Value]:
        """[rows] in parts."""
        if not self.length:
            return [x]
        matrix = self.b.reshape(x, [self.count, self.length])
        if self.length > _MOST_ROWS:
            return [matrix]
        return [self.b.reshape(self.b.slice(matrix, 1, d, 1), [self.count]) for d in range(self.length)]

    def reduce(self, name: str, parts: Sequence[Value]) -> Value:
        """Parts [..., columns] → [count, columns] by the reduction `name`; a bag without rows has its identity."""
        row, combine = _JOIN[name]
        together = joined(self.b, row, parts)
        if self.length:
            return self.b.reduce(name, together, [1]) if self.length > _MOST_ROWS else together
        columns, spelling = shape_of(together)[1], spelling_of(together)
        identity = reduction.BY_NAME[name].identity(element(spelling))
        into = self.b.constant(identity, spelling, [self.count + 1, columns])
        place = self.b.reshape(self.place, [self.rows, 1])
        return self.b.slice(write_at(self.b, into, together, [place], [-1, 1], combine), 0, 0, self.count)

    def of_each(self, x: Value) -> Value:
        """[count, columns] → what each row's bag has, which broadcasts to a part."""
        if self.length > _MOST_ROWS:
            return self.b.reshape(x, [self.count, 1, shape_of(x)[1]])
        if self.length:
            return x
        return index_into(self.b, x, [self.b.with_number("minimum", self.place, self.count - 1)], [0], in_range=True)


def _bags(b: GraphBuilder, table: Value, rows: Number, offsets: Value, mode: int, last: bool) -> _Bags:
    (count,) = shape_of(offsets)
    count -= 1 if last else 0
    length = _length(offsets)
    if length and count * length == rows and not last:
        if length > _MOST_ROWS and on_cpu(table) and shape_of(table)[1] < _FEWEST_COLUMNS:
            raise Decline(f"long bags of rows of less than {_FEWEST_COLUMNS} elements, which ATen adds up by vectors")
        return _Bags(b, count, rows, length, b.with_number("floor_divide", b.ramp(rows), length))
    if mode != MAX:
        # Measured on a CPU: ours took 1.1 to 3.4 of its time. On a GPU no kernel adds up in one order.
        raise Decline("bags as long as the offsets say, each of which ATen adds up in one loop")
    ones, zeros = b.constant(1, "i64", shape_of(offsets)), b.constant(0, "i64", [rows + 1])
    begun = write_at(b, zeros, ones, [offsets], [-1], "add")
    so_far = reduction.CumSum(begun, int_attr(0), begun.type).result
    return _Bags(b, count, rows, 0, b.with_number("sub", b.slice(so_far, 0, 0, rows), 1))


def _length(offsets: Value) -> int:
    """How far apart the offsets are, where they are a range from 0; else 0."""
    if isinstance(offsets.owner, ir.Block) or offsets.owner.name != "cuesta.iota":
        return 0
    start, step = (offsets.owner.attributes[name].value for name in ("start", "step"))
    return int(step) if start == 0 else 0


@imports("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    b: GraphBuilder,
    node: torch.fx.Node,
    table: Value,
    indices: Value,
    offsets: Value,
    by_frequency: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    weights: Value | None = None,
    last: bool = False,
    padding: int = -1,
) -> Sequence[Value | None]:
    """(bags, the bag of each index, indices in each bag, the row that each maximum is of). A bag without rows is 0;
    of NaN and a number the maximum is NaN."""
    bags = _bags(b, table, shape_of(indices)[0], offsets, mode, last)
    spelling, wide = spelling_of(table), opmath(spelling_of(table))
    at = bags.parts(indices)
    rows = [b.convert(index_into(b, table, [i], [0]), wide) for i in at]
    if weights is not None:
        scales = [_column(b, b.convert(part, wide)) for part in bags.parts(weights)]
        rows = [b.pointwise("mul", row, scale) for row, scale in zip(rows, scales, strict=True)]
    kept = [_column(b, b.with_number("ne", i, padding)) for i in at]
    if padding >= 0:
        lowest = reduction.BY_NAME["amax"].identity(element(wide)) if mode == MAX else 0
        rows = [b.where(keep, row, b.constant(lowest, wide)) for row, keep in zip(rows, kept, strict=True)]
    sizes = bags.reduce("sum", [b.convert(keep, "i64") for keep in kept])
    total = best = bags.reduce("amax" if mode == MAX else "sum", rows)
    if mode == MAX:
        total = b.where(b.with_number("eq", sizes, 0), b.constant(0, wide), best)
    elif mode == MEAN:
        total = b.pointwise("div", total, b.convert(b.with_number("maximum", sizes, 1), wide))

    def places() -> Value:
        return bags.place

    def counts() -> Value:
        longer = node.meta["val"][2].shape[0] - bags.count  # one more in inference, with the last bag's end
        return b.pad(b.reshape(sizes, [bags.count]), 0, 0, longer)

    def maxima() -> Value:
        # Of sums and means what it holds is nobody's business.
        sizes = node.meta["val"][3].shape
        return _rows_of(b, bags, rows, best, kept, indices) if mode == MAX else b.constant(0, "i64", sizes)

    return [b.convert(total, spelling), *_where_read(b, node, places, counts, maxima)]


def _where_read(b: GraphBuilder, node: torch.fx.Node, *results: Callable[[], Value]) -> list[Value | None]:
    """The node's results after its first one, whole numbers, that anybody reads."""
    read = {user.args[1] for user in node.users}
    kinds = [SPELLING[meta.dtype] for meta in node.meta["val"][1:]]
    return [
        b.convert(make(), kind) if i in read else None
        for i, (make, kind) in enumerate(zip(results, kinds, strict=True), 1)
    ]


def _column(b: GraphBuilder, x: Value) -> Value:
    return b.reshape(x, [*shape_of(x), 1])


def _rows_of(
    b: GraphBuilder, bags: _Bags, rows: Sequence[Value], best: Value, kept: Sequence[Value], indices: Value
) -> Value:
    """Of each maximum the index of the first row that has it; 0 in a bag without rows."""
    found, none = [], b.constant(bags.rows, "i64")
    for row, keep, here in zip(rows, kept, bags.parts(b.ramp(bags.rows)), strict=True):
        equal = b.pointwise("logical_or", b.pointwise("eq", row, bags.of_each(best)), b.pointwise("isnan", row))
        found.append(b.where(b.pointwise("logical_and", equal, keep), _column(b, here), none))
    first = bags.reduce("amin", found)
    exists = b.with_number("lt", first, bags.rows)
    taken = index_into(b, indices, [b.where(exists, first, b.constant(0, "i64"))], [0], in_range=True)
    return b.where(exists, taken, b.constant(0, spelling_of(taken)))
