"""Finds the memory orders in which others ask for what kernels write: the caller, calls into ATen, and kernels that
read whole rows. They are known before there are kernels, so that fusion can count how programs would write.

    %2 = relu(%1); call @convolution(%2) in channels_last   →   %2: [0, 2, 3, 1], and %1 as well
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import aten
from cuesta.dialects.cuesta.shape import Expand, Permute, Reshape
from cuesta.dialects.kernel_fields import ROW_MAJOR
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import row_major, shape_of
from cuesta.passes.analysis.layout import dense_strides, is_dense, memory_order
from cuesta.passes.analysis.memory_order import multiplies_pixels
from cuesta.passes.form_kernels.fusion.nodes import Item, Node
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
#: Value → the order of its dims in memory, the slowest first.
Orders: TypeAlias = "dict[Value, list[int]]"


def orders_asked(items: Sequence[Item], wanted: Mapping[Value, Sequence[Number]]) -> Orders:
    """The orders asked of what generics compute, and of what they compute it from element by element. `wanted` maps
    each returned value to its strides."""
    orders: Orders = {}
    for value, strides in wanted.items():
        ask(orders, value, strides)
    for value, strides in asked_by_calls(items):
        ask(orders, value, strides)
    for item in items:
        for value, strides in asked_by_node(item):
            ask(orders, value, strides)
    _ask_makers(orders, items)
    return orders


def ask(orders: Orders, value: Value, strides: Sequence[Number]) -> None:
    """Asks the generic that computes a value to write it with these strides, unless others were asked before."""
    while not isinstance(value.owner, ir.Block) and Expand.matches(value.owner):
        value = value.owner.operands[0]
        strides = strides[len(strides) - len(shape_of(value)) :]
    found = through_views(value, list(range(len(shape_of(value)))))
    if found is None or found[0] in orders:
        return
    root, dims = found
    own = [strides[d] for d in dims]
    if is_dense(shape_of(root), own):
        orders[root] = memory_order(shape_of(root), own)


def asked_by_calls(items: Sequence[Item]) -> Iterator[tuple[Value, Sequence[Number]]]:
    """The operands of calls into ATen, each with the strides that the call was traced with."""
    for item in items:
        if aten.Call.matches(item.op):
            for value, traced in zip(item.op.operands, aten.traced_strides(item.op), strict=True):
                if traced is not None:
                    yield value, traced


def asked_by_node(item: Item) -> Iterator[tuple[Value, Sequence[Number]]]:
    """What a sum over windows reads, channels side by side; what a product of pixels reads, one pixel after the
    other; what is marked to be written row-major."""
    if isinstance(item, Node) and ROW_MAJOR.is_on(item.op):
        yield item.op.results[0], row_major(shape_of(item.op.results[0]))
    elif isinstance(item, Node) and item.windows:
        for value in (item.op.operands[0], *item.gathers):
            yield value, row_major(shape_of(value))
    elif isinstance(item, Node) and multiplies_pixels(item.op):
        (left, *_), (order, *_) = item.reads, item.writes
        walked = sorted(range(len(left.dims)), key=lambda d: (left.dims[d] not in order, left.dims[d]))
        yield left.value, dense_strides(shape_of(left.value), walked)


def _ask_makers(orders: Orders, items: Sequence[Item]) -> None:
    """Adds what only elementwise ops read whose results are all asked for in one order."""
    readers: dict[Value, list[Item]] = {}
    for item in items:
        for value in item.op.operands:
            readers.setdefault(value, []).append(item)
    for item in reversed(items):
        for result in item.op.results if isinstance(item, Node) else ():
            if result not in orders:
                found = {_order_of_operand(orders, reader, result) for reader in readers.get(result, ())}
                (order,) = found if len(found) == 1 else (None,)
                if order is not None:
                    orders[result] = [*order]


def _order_of_operand(orders: Orders, reader: Item, value: Value) -> tuple[int, ...] | None:
    """The order in which an elementwise op goes through an operand that has all of its loops, as it is asked for its
    result; None for others."""
    if (
        not isinstance(reader, Node)
        or not all(reader.parallel)
        or reader.product is not None
        or len(reader.writes) != 1
    ):
        return None
    order, (dims,) = orders.get(reader.results[0]), reader.writes
    reads = [read for read in reader.reads if read.value == value]
    if order is None or len(reads) != 1 or {*reads[0].dims} != {*dims}:
        return None
    return tuple(reads[0].dims.index(dims[d]) for d in order)


def written_by_generic(value: Value) -> tuple[Value, list[int]] | None:
    """(the generic's result that equals `value` but for dims of size 1, the dims of `value` that it has)."""
    kept = [d for d, s in enumerate(shape_of(value)) if s != 1]
    found = through_views(value, list(range(len(shape_of(value)))))
    if found is None:
        return None
    root, dims = found
    return (root, kept) if dims == kept else None


def through_views(value: Value, dims: list[int | None]) -> tuple[Value, list[int]] | None:
    """The generic's result that `value` views through permutes and unit reshapes, and for each of the result's dims the
    dim of `value`. `dims` numbers the dims of `value`."""
    while True:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return None
        if is_generic(owner):
            known = [d for d in dims if d is not None]
            return (value, known) if len(known) == len(dims) else None
        if Permute.matches(owner):
            inner: list[int | None] = [None] * len(dims)
            for outer, d in enumerate(Permute.dims.of(owner)):
                inner[d] = dims[outer]
            dims = inner
        elif Reshape.matches(owner):
            source, target = shape_of(owner.operands[0]), shape_of(value)
            if [s for s in source if s != 1] != [s for s in target if s != 1]:
                return None
            rest = iter([d for d, s in zip(dims, target, strict=True) if s != 1])
            dims = [next(rest) if s != 1 else None for s in source]
        else:
            return None
        value = owner.operands[0]
