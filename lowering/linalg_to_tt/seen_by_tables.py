"""Writes what finds, before the loop along the keys, the keys that a block's queries may see by tables.

    least, most = min and max of the queries' documents            the comparison is of documents, for equality
    for n in low..high step 2048:
        seen = least <= documents of the keys from n on <= most
        first = min(first, the keys seen)
        last = max(last, the keys seen)

Positions may be compared with tensors as well, such as with the ends of what each query sees: the least and the most of
these are bounds, and no key is looked at.

The keys between the first and the last that is seen are those of the queries' documents, if each document is in one
piece, and perhaps more: the loop makes the comparison itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import tt
from cuesta.dialects.tt.types import block_type, element_of, shape_of
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.seen_keys import Table
from cuesta.sizes.powers import power_at_least

if TYPE_CHECKING:
    from cuesta.lowering.linalg_to_tt.kernel import KernelWriter
    from cuesta.lowering.linalg_to_tt.product import Products

#: Keys that are looked at together.
_AT_ONCE = 2048

_Predicate = arith.CmpIPredicate
#: A comparison of a key's number with those of the queries → which of the latter bounds the former, and how.
_LIMITS = {
    _Predicate.slt: {"most": _Predicate.slt},
    _Predicate.sle: {"most": _Predicate.sle},
    _Predicate.sgt: {"least": _Predicate.sgt},
    _Predicate.sge: {"least": _Predicate.sge},
    _Predicate.eq: {"least": _Predicate.sge, "most": _Predicate.sle},
}


def seen_by_tables(
    product: Products,
    tables: Sequence[Table],
    whole: KernelWriter,
    starts: Mapping[int, Value],
    low: Value,
    high: Value,
) -> tuple[Value, Value]:
    """The first of the keys `low`..`high` that a query may see, and the number behind the last: an empty range if there
    is none, or no key between `low` and `high`. Both are within the tensor. `whole` has computed what is outside the
    loop of the block at `starts`."""
    size = product.writer.frame.sizes[product.k]
    width = min(_AT_ONCE, power_at_least(size)) if isinstance(size, int) else _AT_ONCE
    limits = []
    scalar = product.writer.frame.scalar
    for table in tables:
        for side, predicate in _LIMITS[table.predicate].items():
            limit = _limit(product, whole, table, side)
            if table.keys is None:
                low, high = _within(low, high, predicate, limit, scalar(1))
            else:
                limits.append((table.keys, predicate, limit))
    # Bounds by position may leave a block nothing, and then be anywhere.
    low = arith.minsi(arith.maxsi(low, scalar(0)), arith.maxsi(high, scalar(0)))
    high = arith.maxsi(high, low)
    if not limits:
        return low, high
    # Parts begin at multiples of their width, as masks are left out where these fill the tensor.
    begin = arith.muli(arith.divsi(low, scalar(width)), scalar(width))
    loop = scf.ForOp(begin, high, scalar(width), [high, low])
    with ir.InsertionPoint(loop.body):
        first, last = loop.inner_iter_args
        here = {**starts, product.k: loop.induction_variable}
        own = product.on([product.m, product.k], here, {product.k: width})
        own.blocks = dict(whole.blocks)
        position = own.frame.positions[product.k]
        seen = arith.cmpi(_Predicate.slt, position, _like(position, high))
        seen = arith.andi(seen, arith.cmpi(_Predicate.sge, position, _like(position, low)))
        for keys, predicate, limit in limits:
            x, limit = _of_one_type(stretched(_keys(own, keys), shape_of(position)), limit)
            seen = arith.andi(seen, arith.cmpi(predicate, x, _like(x, limit)))
        behind = arith.addi(position, _like(position, scalar(1)))
        lowest = arith.select(seen, position, _like(position, high))
        highest = arith.select(seen, behind, _like(position, low))
        first = arith.minsi(first, tt.unsplat(tt.reduce([lowest], 1, arith.minsi)[0]))
        last = arith.maxsi(last, tt.unsplat(tt.reduce([highest], 1, arith.maxsi)[0]))
        scf.YieldOp([first, last])
    return loop.results[0], loop.results[1]


def _within(low: Value, high: Value, predicate: arith.CmpIPredicate, limit: Value, one: Value) -> tuple[Value, Value]:
    """The keys `low`..`high` whose positions compare so with a limit. The limit may be any number of any type. It is
    clamped to the range from `low` - 1 to `high` before it is converted to the type of positions."""
    kind = low.type
    wide = max(kind, limit.type, key=lambda x: x.width)
    ends = [x if x.type == wide else arith.extsi(wide, x) for x in (low, high, limit)]
    inside = arith.minsi(arith.maxsi(ends[2], arith.subi(ends[0], arith.constant(wide, 1))), ends[1])
    inside = inside if wide == kind else arith.trunci(kind, inside)
    if predicate in (_Predicate.sgt, _Predicate.sle):
        inside = arith.addi(inside, one)
    if predicate in (_Predicate.sgt, _Predicate.sge):
        return arith.maxsi(low, inside), high
    return low, arith.minsi(high, inside)


def _like(block: Value, number: Value) -> Value:
    """A number as a block."""
    return tt.splat(number, shape_of(block))


def _of_one_type(numbers: Value, limit: Value) -> tuple[Value, Value]:
    """A block of numbers and a limit, the narrower extended: positions are compared with tensors of any type."""
    kind, other = element_of(numbers), limit.type
    if kind.width < other.width:
        return arith.extsi(block_type(shape_of(numbers), other), numbers), limit
    return numbers, limit if kind == other else arith.extsi(kind, limit)


def _keys(own: KernelWriter, keys: tuple[Value, list[int]]) -> Value:
    """The numbers of the keys of a block, for which `own` is a writer."""
    value, classes = keys
    if isinstance(value.owner, ir.Block):
        return own.load(value, classes)
    needed = own.needed([node for node in own.nodes if node.op == value.owner])
    for node in own.nodes:
        if node.op in needed and node.op.results[0] not in own.blocks:
            own.emit(node)
    return own.value(value)


def _limit(product: Products, whole: KernelWriter, table: Table, side: str) -> Value:
    """The least or the most of the numbers of the block's queries."""
    if table.queries is None:
        block, classes = whole.frame.positions[product.m], [product.m]
    else:
        value, classes = table.queries
        block = whole.load(value, classes) if isinstance(value.owner, ir.Block) else whole.value(value)
    if product.m not in classes:
        return tt.unsplat(tt.reshape(block, [1]))
    kind, is_least = element_of(block), side == "least"
    mask = whole.frame.mask([product.m])
    if mask is not None:  # rows beyond the end have any number
        limit = (1 << (kind.width - 1)) - 1
        block = arith.select(mask, block, tt.full(shape_of(block), kind, limit if is_least else -limit - 1))
    (found,) = tt.reduce([block], 0, arith.minsi if is_least else arith.maxsi)
    return tt.unsplat(found)
