"""Places the results of scatters: in the memory of the tensor that is written into, if that is dead afterwards, else in
a copy of it.

    %r = kernel.scatter(%v, %i, %x)    →    host.launch(%x, %r) {@copy}
                                            host.launch(%v, %i, %r) {@index_add}, which reads and writes %r

The new value of an argument that the graph writes to is made in the argument: a cache of keys is not copied to write
one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.kernel_scatter import is_scatter
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import Layout, is_dense
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.nodes import Item
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.passes.form_kernels.placement.mutations import readers_of

Value: TypeAlias = ir.Value


def place_scatters(where: Assignment, group: Group) -> None:
    """Places the result of the group's scatter, if that has no place yet: in its base's memory, or in a copy."""
    for node in group.members:
        if node.base is None or node.results[0] in where.placed:
            continue
        layout = where.layout_of(node.base)
        inputs = [v for n in group.members for v in (*(r.value for r in n.reads), *n.gathers)]
        read = {where.layouts[v].base for v in inputs if v in where.layouts}
        if not (_is_whole(layout) and where.dies(node.base, layout)) or layout.base in read:
            layout = where.copy(node.base, layout, where.row_major(node.base))
        where.placed[node.results[0]] = layout


def place_scatter_updates(
    where: Assignment, updates: Sequence[tuple[Value, Value]], returned: Sequence[Value], items: Sequence[Item]
) -> None:
    """Places chains of scatters in the argument whose new value they make, for each (new value, argument) of `updates`
    if nothing else reads the values that are overwritten. `returned` holds all that the graph returns."""
    readers = readers_of(items)
    index = {item.op: item.index for item in items}
    seen = Counter(alias_root(value) for value in returned)
    for value, argument in updates:
        chain: list[ir.Operation] = []
        at = unreshaped(value)
        while not isinstance(at.owner, ir.Block) and is_scatter(at.owner):
            chain.append(at.owner)
            at = unreshaped(at.owner.operands[-1])
        layout = where.layouts[argument]
        overwritten = [argument, *(op.results[0] for op in chain[1:])]
        writers = [index[op] for op in reversed(chain)]
        if (
            at != argument
            or not chain
            or not _is_whole(layout)
            or seen[chain[0].results[0]] != 1
            or any(v in seen for v in overwritten)
            or any(readers.get(v, set()) != {i} for v, i in zip(overwritten, writers, strict=True))
            or any(alias_root(v) in overwritten for op in chain for v in list(op.operands)[:-1])
        ):
            continue
        for op in chain:
            place = layout.reshape(shape_of(op.results[0]))
            if place is not None:
                where.placed[op.results[0]] = place


def _is_whole(layout: Layout) -> bool:
    """Whether each place of the layout's memory belongs to exactly one element."""
    return 0 not in layout.strides and is_dense(layout.sizes, layout.strides)
