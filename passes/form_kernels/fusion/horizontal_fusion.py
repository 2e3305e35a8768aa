"""Fuses horizontally: merges groups of the same elementwise ops over spaces of the same sizes, on different tensors.

    p0 -= rate * m0        p0 -= rate * m0
                       →   p1 -= rate * m1       one kernel, whose tiles do both
    p1 -= rate * m1

An optimizer's step has hundreds of such groups, each little more work than its launch. Only groups that read arguments
and write results of the graph are merged: any other tensor might have to be kept for longer.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.types import byte_count
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Node

Value: TypeAlias = ir.Value

#: Bytes read above which a group's work outweighs its launch.
_LARGE = 8 << 20
#: Bytes up to which a tensor may be kept longer without harm.
_SMALL = 64 << 10


def fuse_horizontally(grouping: Grouping) -> None:
    """Merges equal groups, up to as many as one kernel may hold."""
    open_groups: dict[Hashable, list[Node]] = {}
    for group in {id(g): g for g in grouping.group.values()}.values():
        key = _kind(grouping, group)
        if key is None:
            continue
        first = open_groups.get(key)
        if first is None or not _has_room(grouping, first, group) or grouping.merge_node_by_node(first, group):
            open_groups[key] = group.members


def _kind(grouping: Grouping, group: Group) -> Hashable | None:
    """A key that is equal for groups to be merged; None for a group that should stay alone."""
    if group.tail or any(n.gathers or n.uses_index or not all(n.parallel) for n in group.nodes):
        return None
    inside = {r for n in group.nodes for r in n.results}
    read = {r.value for n in group.nodes for r in n.reads} - inside
    left = _left(grouping, group.members)
    if group.bytes_read > _LARGE or not all(map(_is_there, read)) or not all(map(_is_small, left - grouping.returned)):
        return None
    return tuple(_node_kind(grouping, n) for n in group.members)


def _has_room(grouping: Grouping, first: list[Node], group: Group) -> bool:
    """Whether the kernel of the nodes `first` may write what `group` does besides."""
    members = [*grouping.group[first[0].index].members, *group.members]
    return len(_left(grouping, members)) <= grouping.machine.written_together


def _left(grouping: Grouping, members: Sequence[Node]) -> set[Value]:
    """What a kernel of these nodes writes for others."""
    inside = {n.index for n in members}
    return {r for n in members for r in n.results if grouping.is_left(r, inside)}


def _is_there(value: Value) -> bool:
    """Whether a tensor is in memory during the whole call (an argument), or is small enough not to matter."""
    return isinstance(alias_root(value).owner, ir.Block) or _is_small(value)


def _is_small(value: Value) -> bool:
    return byte_count(value) <= _SMALL


def _node_kind(grouping: Grouping, node: Node) -> Hashable:
    # The memory orders are part of the key, so that the tiles of merged groups have the same layout in memory.
    reads = tuple((r.dims, tuple(grouping.memory.order(r.value))) for r in node.reads)
    return (node.sizes, reads, node.writes, node.widens)
