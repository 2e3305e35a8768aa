"""Merges the kernels that write the parts of one concatenation, if the parts are short runs side by side in memory.

    %0 = exp(%x) : 4096x8                      a tile is some rows of %2: 8 numbers of %0 and 8 of %1
    %1 = sin(%y) : 4096x8                  →
    %2 = cat(%0, %1) {dim = 1} : 4096x16

A kernel for one part alone would touch every cache line that the other parts touch, and take as long as all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.shape import Cat
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Item, Node
from cuesta.passes.form_kernels.placement.concatenation import is_cat, is_inner, operands_of, order_of
from cuesta.passes.form_kernels.placement.orders_asked import written_by_generic
from cuesta.sizes import Number, estimate

Value: TypeAlias = ir.Value
#: For each dim of a value with more than one element, the loop of its node that walks the dim.
Walk = dict[int, int]

#: Bytes from which a run counts as long, sharing few cache lines with its neighbours: a page.
_LONG = 4096
#: Most bytes of all parts in a tile: they stay in the cache until the tile is done.
_TILE = 1 << 16
#: Most parts of one kernel: each part has loops of its own.
_MOST = 16


def fuse_concat_operands(grouping: Grouping, wanted: Mapping[Value, Sequence[Number]]) -> None:
    """Merges elementwise kernels that write parts of one concatenation; `wanted` holds the strides of each value that
    the function returns."""
    for item in grouping.items:
        if is_cat_end(item):
            _merge(grouping, item.op, wanted)


def is_cat_end(item: Item) -> bool:
    """Whether an item is the last concatenation of a chain, whose result is the whole."""
    return any(map(is_cat, item.op.results)) and not is_inner(item.op)


def _merge(grouping: Grouping, op: ir.Operation, wanted: Mapping[Value, Sequence[Number]]) -> None:
    parts = operands_of(op)
    walks = [_walk(grouping, value) for value in parts]
    found = [walk for walk in walks if walk is not None]
    if len(parts) > _MOST or len(found) < 2 or not _is_short(op, parts, order_of(op, wanted, grouping.memory)):
        return
    shared = set.intersection(*(set(walk) for _, walk in found)) - {Cat.dim.of(op)}
    (whole,) = op.results
    beside = [size for d, size in enumerate(shape_of(whole)) if d not in shared]
    if not shared or estimate(beside) * byte_size(spelling_of(whole)) > _TILE:
        return
    for (a, walk_a), (b, walk_b) in itertools.pairwise(found):
        one, other = grouping.group[a.index], grouping.group[b.index]
        if one is not other and _is_elementwise(one) and _is_elementwise(other):
            grouping.merge_along(one, other, [((a.index, walk_a[d]), (b.index, walk_b[d])) for d in sorted(shared)])


def _walk(grouping: Grouping, value: Value) -> tuple[Node, Walk] | None:
    """The node that writes a part, and the loops that walk the part's dims. If the part is itself a concatenation, its
    first part stands for all, without the concatenated dim."""
    if is_cat(value):
        inner = _walk(grouping, operands_of(value.owner)[0])
        return inner and (inner[0], {d: c for d, c in inner[1].items() if d != Cat.dim.of(value.owner)})
    found = written_by_generic(value)
    if found is None:
        return None
    root, dims = found
    node = grouping.writer[root]
    return node, dict(zip(dims, node.writes[node.results.index(root)], strict=True))


def _is_short(op: ir.Operation, parts: Sequence[Value], order: Sequence[int]) -> bool:
    """Whether the contiguous runs of some part are short, where the whole has this order in memory."""
    inside = order[order.index(Cat.dim.of(op)) :]
    shortest = min(estimate(shape_of(value)[d] for d in inside) for value in parts)
    return shortest * byte_size(spelling_of(parts[0])) < _LONG


def _is_elementwise(group: Group) -> bool:
    return not group.tail and all(all(n.parallel) and n.product is None and n.base is None for n in group.nodes)
