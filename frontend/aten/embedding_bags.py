"""Imports embedding bags: sums, means and maxima of bags of a table's rows.

Bags of equal length, as from a matrix of indices, are reduced in the kernel that reads the rows. The length of other
bags depends on the offsets: maxima are scattered into their bags row by row; sums and means are left to ATen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction, shape
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import SPELLING, element, opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import joined
from cuesta.frontend.aten.positions import index_into, write_at
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Number

SUM, MEAN, MAX = range(3)

#: Up to this many rows in each bag of equal length, each row is an operand of the kernel. More are a dim to reduce.
_MOST_ROWS = 32
#: With fewer columns, the reduction of this dim is left to ATen on a CPU. Measured: with 16 columns it took 14 to 22
#: times as long as ATen's, with 32 and more 0.4 to 2.3 times.
_FEWEST_COLUMNS = 32
#: A reduction → (pointwise op, `combine` of a scatter) for two of its operands.
_JOIN = {"sum": ("add", "add"), "amax": ("maximum", "max"), "amin": ("minimum", "min")}


@dataclass(frozen=True)
class _Bags:
    """`count` bags of `rows` rows in all. A tensor of [rows] is processed in parts: for short bags of equal length in
    `length` parts of [count], for long ones in one part of [count, length], for others (`length` 0) in one of [rows].
    """

    b: GraphBuilder
    count: Number
    rows: Number
    length: int
    #: the bag of each row; `count` for rows behind the last bag
    place: Value

    def parts(self, x: Value) -> list[Value]:
        """Splits a tensor of [rows] into parts."""
        if not self.length:
            return [x]
        matrix = self.b.reshape(x, [self.count, self.length])
        if self.length > _MOST_ROWS:
            return [matrix]
        return [self.b.reshape(self.b.slice(matrix, 1, d, 1), [self.count]) for d in range(self.length)]

    def reduce(self, name: str, parts: Sequence[Value]) -> Value:
        """Reduces parts [..., columns] to [count, columns]; a bag without rows gets the identity of `name`."""
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
        """From a value for each bag, [count, columns], the value of each row's bag; it broadcasts to a part."""
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
            raise Decline(f"long bags of rows of fewer than {_FEWEST_COLUMNS} elements: ATen adds rows as vectors")
        return _Bags(b, count, rows, length, b.with_number("floor_divide", b.ramp(rows), length))
    if mode != MAX:
        # Measured on a CPU: our kernel took 1.1 to 3.4 of ATen's time. On a GPU no kernel adds in a fixed order.
        raise Decline("bag lengths depend on the offsets: ATen adds each bag in one loop")
    ones, zeros = b.constant(1, "i64", shape_of(offsets)), b.constant(0, "i64", [rows + 1])
    begun = write_at(b, zeros, ones, [offsets], [-1], "add")
    so_far = reduction.CumSum(begun, 0, begun.type).result
    return _Bags(b, count, rows, 0, b.with_number("sub", b.slice(so_far, 0, 0, rows), 1))


def _length(offsets: Value) -> int:
    """The step of the offsets if they are a range from 0, else 0."""
    if isinstance(offsets.owner, ir.Block) or not shape.Iota.matches(offsets.owner):
        return 0
    return int(shape.Iota.step.of(offsets.owner)) if shape.Iota.start.of(offsets.owner) == 0 else 0


@imports("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    b: Call,
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
    """(bags, the bag of each index, the number of indices in each bag, the row of each maximum). A bag without rows
    is 0. The maximum of NaN and a number is NaN."""
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
        longer = b.meta[2].shape[0] - bags.count  # inference has one more, for the last bag's end
        return b.pad(b.reshape(sizes, [bags.count]), 0, 0, longer)

    def maxima() -> Value:
        # For sums and means the contents are unspecified.
        sizes = b.meta[3].shape
        return _rows_of(b, bags, rows, best, kept, indices) if mode == MAX else b.constant(0, "i64", sizes)

    return [b.convert(total, spelling), *_where_read(b, places, counts, maxima)]


def _where_read(b: Call, *results: Callable[[], Value]) -> list[Value | None]:
    """The node's integer results, which follow its first one; None for results without users."""
    kinds = [SPELLING[meta.dtype] for meta in b.meta[1:]]
    return [
        b.convert(make(), kind) if i in b.read else None
        for i, (make, kind) in enumerate(zip(results, kinds, strict=True), 1)
    ]


def _column(b: GraphBuilder, x: Value) -> Value:
    return b.reshape(x, [*shape_of(x), 1])


def _rows_of(
    b: GraphBuilder, bags: _Bags, rows: Sequence[Value], best: Value, kept: Sequence[Value], indices: Value
) -> Value:
    """For each maximum, the index of the first row that has it; 0 for a bag without rows."""
    found, none = [], b.constant(bags.rows, "i64")
    for row, keep, here in zip(rows, kept, bags.parts(b.ramp(bags.rows)), strict=True):
        equal = b.pointwise("logical_or", b.pointwise("eq", row, bags.of_each(best)), b.pointwise("isnan", row))
        found.append(b.where(b.pointwise("logical_and", equal, keep), _column(b, here), none))
    first = bags.reduce("amin", found)
    exists = b.with_number("lt", first, bags.rows)
    taken = index_into(b, indices, [b.where(exists, first, b.constant(0, "i64"))], [0], in_range=True)
    return b.where(exists, taken, b.constant(0, spelling_of(taken)))
