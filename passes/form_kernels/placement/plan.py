"""Plans where values are stored, as required by graph results, by calls that were traced with certain strides, and by
concatenations, whose parts are written in place.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Permute, Reshape, Slice
from cuesta.dialects.kernel_attention import KernelAttention, is_attention
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.product import is_in_panels
from cuesta.dialects.types import byte_count, byte_size, row_major, shape_of, spelling_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import Layout, aligned_strides, dense_strides, is_dense, memory_order
from cuesta.passes.analysis.match import only_has_ones
from cuesta.passes.analysis.memory_order import MemoryOrder, multiplies_pixels
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Item, Node, node_of
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.passes.form_kernels.placement.concatenation import Concatenations
from cuesta.passes.form_kernels.placement.mutations import place_updates
from cuesta.passes.form_kernels.placement.orders_asked import (
    ask,
    asked_by_calls,
    asked_by_node,
    through_views,
    written_by_generic,
)
from cuesta.passes.form_kernels.placement.scatters import place_scatter_updates
from cuesta.passes.form_kernels.placement.tables import turned_tables
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
#: The views for which `_computed` finds the operand's layout from the view's.
_PLACED_BY_VIEWS = names_of(Permute, Reshape, Slice)


def single_node(op: ir.Operation) -> Node:
    """A node for a generic on its own."""
    return node_of(0, op)


def keep_dims(layout: Layout, dims: Sequence[Number]) -> Layout:
    """The layout with only the chosen dims; the dropped dims have size 1."""
    return Layout(
        layout.base, layout.offset, tuple(layout.sizes[d] for d in dims), tuple(layout.strides[d] for d in dims)
    )


def outputs_of(group: Group, grouping: Grouping) -> list[Value]:
    """The group's results that something outside the group reads, and those results of its tiles that its tail reads:
    the tail runs when all tiles are done, so these must be in memory that the host allocates."""
    inside = {n.index for n in group.members}
    for_tail = {r.value for n in group.tail for r in n.reads}
    tiled = {r for n in group.nodes for r in n.results}
    return [
        r for n in group.members for r in n.results if grouping.is_left(r, inside) or (r in for_tail and r in tiled)
    ]


def plan(
    where: Assignment,
    items: list[Item],
    grouping: Grouping,
    returned: list[Value],
    wanted: Mapping[Value, Sequence[Number]],
    updates: Sequence[tuple[Value, Value]],
) -> None:
    """Fills `where.preferred`, `where.placed` and `where.updated` before anything is built.

    `wanted` maps each returned value to its strides. `updates` pairs the new value of each argument that the graph
    writes to with the argument.
    """
    for value, strides in wanted.items():
        ask(where.preferred, value, strides)
    fixed = set(where.preferred)
    for value, strides in asked_by_calls(items):
        ask(where.preferred, value, strides)
        _prefer_whole(where, value, strides)
    for item in items:  # before products choose for themselves: a bias of attention may be a product's result
        if isinstance(item, Node) and item.factor is not None:
            _prefer_order_of_factor(where, grouping.group[item.index], grouping)
    for item in items:
        for value, strides in asked_by_node(item):
            ask(where.preferred, value, strides)
        if isinstance(item, Node) and (multiplies_pixels(item.op) or _multiplies_rows(item, grouping)):
            _prefer_rows(where, item, grouping)
        elif is_attention(item.op) and KernelAttention.masked.of(item.op):
            # The kernel reads a mask, or a bias, along the keys: that dim shall be contiguous.
            mask = item.op.operands[len(item.op.operands) - 1]
            ask(where.preferred, mask, row_major(shape_of(mask)))
    blocks = _in_blocks(items, grouping)
    kernels = {item.op: id(grouping.group[item.index]) for item in items if isinstance(item, Node)}
    for item in items:  # last: calls take precedence
        if Reshape.matches(item.op):
            _spare_copy(where, item.op, blocks, kernels, grouping.memory)

    for value, strides in turned_tables(items, grouping, {*map(alias_root, returned)}):
        ask(where.preferred, value, strides)
    _align_rows(where, items, grouping, returned)

    def free_root(value: Value) -> tuple[Value, list[int]] | None:
        found = written_by_generic(value)
        return None if found is None or found[0] in fixed else found

    Concatenations(items, wanted, free_root, where.buffer, grouping.memory).place(where.placed)
    groups = grouping.group
    where.updated = place_updates(updates, returned, items, groups, where.layouts, written_by_generic, where.placed)
    where.placed.update(where.updated)
    place_scatter_updates(where, updates, returned, items)


def _multiplies_rows(product: Node, grouping: Grouping) -> bool:
    """Whether a node is a product of two matrices in a GPU's kernel, as of images of one pixel."""
    is_on_gpu = not grouping.machine.in_sequence
    return is_on_gpu and product.product is not None and product.factor is None and len(product.writes[0]) == 2


def _prefer_rows(where: Assignment, product: Node, grouping: Grouping) -> None:
    """Makes a product write rows, one pixel after the other if it is one of pixels, whatever the order of a result's
    dims: its program computes a block of rows."""
    (order,) = product.writes
    group = grouping.group[product.index]
    outputs = outputs_of(group, grouping)
    ranks = {group.space.find((product.index, loop)): rank for rank, loop in enumerate(order)}
    for node in group.nodes:
        for result, loops in zip(node.results, node.writes, strict=True):
            own = [ranks.get(group.space.find((node.index, loop))) for loop in loops]
            if None not in own and result not in where.preferred and result in outputs:
                where.preferred[result] = sorted(range(len(own)), key=lambda d: own[d] or 0)


def _prefer_order_of_factor(where: Assignment, group: Group, grouping: Grouping) -> None:
    """Makes other kernels write what the computed factor of a product, or attention's scores, read in the order of
    their dims: blocks of it are loaded, such as those of a bias for each head, query and key, from rows of keys."""
    for node in group.nodes:
        for read in node.reads if node.product is None else ():
            walked = sorted(range(len(read.dims)), key=lambda d: read.dims[d])
            found = _computed(read.value, dense_strides(shape_of(read.value), walked))
            if found is not None and not found.is_part and _reads_little(found.value, grouping):
                _prefer_layout(where, found)


def _reads_little(value: Value, grouping: Grouping) -> bool:
    """Whether the kernel that writes a value reads no large tensor at computed positions. Elements of such a tensor lie
    side by side for neighbours in the order that the value has by itself; in another order they are read one by one."""
    members = grouping.group[grouping.writer[value].index].members
    return all(byte_count(table) < byte_count(value) for node in members for table in node.gathers)


def _align_rows(where: Assignment, items: Sequence[Item], grouping: Grouping, returned: Sequence[Value]) -> None:
    """Pads rows of 2-byte matrices around a matrix product, so that each row begins at a multiple of 16 bytes: factors
    that other kernels write, as a program can load no less while it multiplies, and outputs of the product's kernel."""
    kept = {*map(alias_root, returned), *where.preferred, *where.placed}
    writer = {result: item.index for item in items for result in item.op.results}
    for node in items:
        if not isinstance(node, Node) or node.product is None:
            continue
        group = grouping.group[node.index]
        values = outputs_of(group, grouping)
        for factor in list(node.op.operands)[:2]:
            found = through_views(factor, list(range(len(shape_of(factor)))))
            if found is not None and grouping.group[writer[found[0]]] is not group:
                values.append(found[0])
        for value in values:
            strides = aligned_strides(shape_of(value), byte_size(spelling_of(value)))
            if strides is not None and byte_size(spelling_of(value)) == 2 and value not in kept:
                where.placed[value] = where.with_strides(value, strides)
                kept.add(value)


def _prefer_whole(where: Assignment, value: Value, strides: Sequence[Number]) -> None:
    """Makes the generic that computes a whole write it such that a part of it has these strides, where the part is all
    of the whole but along one dim: queries, keys and values that one product gives. They then lie one behind the
    other, and each is read where it lies. Unless the generic writes in another order for somebody else."""
    found = _computed(value, strides)
    if found is not None and found.is_part:
        _prefer_layout(where, found)


def _prefer_layout(where: Assignment, found: _Computed) -> None:
    """Makes the generic write its result in the order of this layout, unless another order was required before."""
    if found.value not in where.preferred:
        where.preferred[found.value] = memory_order(found.layout.sizes, found.layout.strides)


class _Computed(NamedTuple):
    """What a generic computes, of which a value is a view, and the layout with which the view has certain strides."""

    value: Value
    layout: Layout
    is_part: bool


def _computed(value: Value, strides: Sequence[Number]) -> _Computed | None:
    """The result of a generic that `value`, with these strides, is a view of. A slice takes all of it but along one
    dim. None if no generic computes it, or no layout of the result gives the view such strides."""
    layout = Layout(0, 0, tuple(shape_of(value)), tuple(strides))
    is_part = False
    while not isinstance(value.owner, ir.Block) and value.owner.name in _PLACED_BY_VIEWS:
        owner, sizes = value.owner, tuple(shape_of(value.owner.operands[0]))
        if Permute.matches(owner):
            dims = Permute.dims.of(owner)
            layout = layout.permute([dims.index(d) for d in range(len(dims))])
        elif Reshape.matches(owner) and (reshaped := layout.reshape(sizes)) is not None:
            layout = reshaped
        elif Slice.matches(owner) and (whole := _around(layout, sizes)) is not None:
            layout, is_part = whole, True
        else:
            return None
        value = owner.operands[0]
    is_computed = not isinstance(value.owner, ir.Block) and is_generic(value.owner)
    return _Computed(value, layout, is_part) if is_computed else None


def _around(part: Layout, sizes: tuple[Number, ...]) -> Layout | None:
    """The layout of a tensor of which a slice takes one element along one dim and all along the others, and lies dense;
    None for other slices. The parts are then one behind the other."""
    cut = [d for d, (whole, own) in enumerate(zip(sizes, part.sizes, strict=True)) if whole != own]
    if len(cut) != 1 or part.sizes[cut[0]] != 1 or not is_dense(part.sizes, part.strides):
        return None
    count = math.prod(part.sizes)
    return Layout(0, 0, sizes, tuple(count if d == cut[0] else n for d, n in enumerate(part.strides)))


def _in_blocks(items: Sequence[Item], grouping: Grouping) -> set[Value]:
    """The results that kernels of products on tensor cores compute: their programs turn blocks anyway, from the order
    of the sums in registers to that of memory."""
    nodes = [item for item in items if isinstance(item, Node)]
    groups = {id(grouping.group[n.index]) for n in nodes if n.tile is not None and not is_in_panels(n.tile)}
    return {result for n in nodes if id(grouping.group[n.index]) in groups for result in n.results}


def _spare_copy(
    where: Assignment,
    reshape: ir.Operation,
    blocks: Container[Value],
    kernels: Mapping[ir.Operation, int],
    memory: MemoryOrder,
) -> None:
    """Saves a reshape's copy. If a generic's result is permuted and then reshaped (as attention heads are) and has no
    other use outside its kernel, the generic writes it in the permuted order, and the reshape is a view. The contiguous
    dim must stay, but for results that are written in `blocks`. What can be viewed as it lies, such as images whose
    samples are merged, keeps its order. `kernels` numbers the kernel of each generic."""
    (whole,) = reshape.operands
    value = whole
    while not isinstance(value.owner, ir.Block) and _turns(value.owner) and len(list(value.uses)) == 1:
        value = value.owner.operands[0]
    found = through_views(whole, list(range(len(shape_of(whole)))))
    if found is None or found[0] != value or len(_read_outside(value, kernels)) != 1:
        return
    if only_has_ones(reshape) or (value in blocks and _turns(reshape)):
        return  # needs no copy in any order; a reshape below it may
    order = memory.order(whole)
    natural = Layout(0, 0, shape_of(whole), dense_strides(shape_of(whole), order))
    is_view = order != sorted(order) and natural.reshape(shape_of(reshape.results[0])) is not None
    if is_view and value not in blocks:
        return
    _, last = max(((n != 1, d) for d, n in enumerate(shape_of(whole))), default=(False, -1))
    if found[1][-1:] == [last] or value in blocks:
        ask(where.preferred, whole, row_major(shape_of(whole)))


def _read_outside(value: Value, kernels: Mapping[ir.Operation, int]) -> list[ir.Operation]:
    """The ops that read a generic's result, but for those of its kernel."""
    readers = [use.owner.operation for use in value.uses]
    own = kernels.get(value.owner.operation)
    return [reader for reader in readers if own is None or kernels.get(reader) != own]


def _turns(view: ir.Operation) -> bool:
    """Whether a view permutes dims, or adds and takes away dims of 1."""
    return Permute.matches(view) or only_has_ones(view)
