"""Which groups are twins: the same elementwise ops over spaces of the same sizes, on other tensors.

    p0 -= rate * m0        p0 -= rate * m0
                       →   p1 -= rate * m1       one kernel, whose tiles do both
    p1 -= rate * m1

An optimizer's step is hundreds of them, each little more than its launch. Only what reads arguments and leaves results
of the graph is joined: any other tensor might have to be kept for longer.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.types import byte_count
from cuesta.passes.analysis.aliases import root_of
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Node

Value: TypeAlias = ir.Value

#: Bytes that a group reads from which on its work outweighs its launch.
_LARGE = 8 << 20
#: Bytes up to which it does not matter how long a tensor is kept.
_SMALL = 64 << 10


def merge_twins(grouping: Grouping) -> None:
    """Merges twins, as many as a kernel may hold."""
    open_groups: dict[Hashable, list[Node]] = {}
    for group in {id(g): g for g in grouping.group.values()}.values():
        key = _kind(grouping, group)
        if key is None:
            continue
        first = open_groups.get(key)
        if first is None or grouping.merge_twins(first, group) is not None:
            open_groups[key] = group.members


def _kind(grouping: Grouping, group: Group) -> Hashable | None:
    """Equal for groups that are twins; None for one that had better stay alone."""
    if group.tail or any(n.gathers or n.uses_index or not all(n.parallel) for n in group.nodes):
        return None
    inside = {r for n in group.nodes for r in n.results}
    read = {r.value for n in group.nodes for r in n.reads} - inside
    left = inside - {v for v in inside if grouping.readers.get(v, set()) <= {n.index for n in group.nodes}}
    if group.bytes_read > _LARGE or not all(map(_is_there, read)) or not all(map(_is_small, left - grouping.returned)):
        return None
    return tuple(_node_kind(grouping, n) for n in group.members)


def _is_there(value: Value) -> bool:
    """Whether a tensor is in memory for the whole of the call, or as good as that."""
    return isinstance(root_of(value).owner, ir.Block) or _is_small(value)


def _is_small(value: Value) -> bool:
    return byte_count(value) <= _SMALL


def _node_kind(grouping: Grouping, node: Node) -> Hashable:
    # Memory orders, so that the tiles of the one lie in memory as the other's do.
    reads = tuple((r.dims, tuple(grouping.memory.order(r.value))) for r in node.reads)
    return (node.sizes, reads, node.writes, node.widens)
