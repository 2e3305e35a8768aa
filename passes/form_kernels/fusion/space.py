"""Builds the iteration space that the generics of a group share.

Loops of two generics are one *class* when a tensor that passes between them is written and read along
them. Tiles run over the group's parallel classes: along these no point of a generic depends on another point,
so everything that a generic needs from its producers is in its own tile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from cuesta._mlir import ir
from cuesta.dialects.types import byte_size, spelling_of
from cuesta.passes.form_kernels.fusion.nodes import Node

#: A generic that lacks a class is repeated in each of its tiles; this may cost up to this share of the group's work.
_REPEAT_SHARE = 0.1

Loop = tuple[int, int]  # (node index, loop)


class Conflict(Exception):
    """Two loops of one generic would fall into one class: a tensor is written and read transposed."""


@dataclass
class Space:
    """Classes of loops, as a union-find over (node, loop)."""

    parent: dict[Loop, Loop] = field(default_factory=dict)
    #: node index → the class of each of the node's loops, as of the node's last check
    classes: dict[int, tuple[Loop, ...]] = field(default_factory=dict)

    def find(self, loop: Loop) -> Loop:
        """The representative of the loop's class."""
        parent = self.parent
        up = parent.get(loop)
        if up is None:
            return loop
        root = up
        while (above := parent.get(root)) is not None:
            root = above
        while up != root:
            parent[loop], loop = root, up
            up = parent[loop]
        return root

    def unify(self, a: Loop, b: Loop) -> None:
        one, other = self.find(a), self.find(b)
        if one != other:
            self.parent[one] = other

    def copy(self) -> Space:
        return Space(dict(self.parent))

    def check(self, nodes: Iterable[Node]) -> None:
        """Raises Conflict if two loops of one node fell into one class."""
        for node in nodes:
            classes = tuple(map(self.find, node.loops))
            if len(set(classes)) < len(classes):
                raise Conflict
            self.classes[node.index] = classes


def join(spaces: Sequence[Space], nodes: Sequence[Node]) -> Space:
    """The space of all `nodes`, joined from `spaces`, their spaces so far.

    Raises Conflict if a tensor inside the group is read along other loops than it is written.
    """
    space = Space()
    for each in spaces:
        space.parent.update(each.parent)
    written = {r: (n, dims) for n in nodes for r, dims in zip(n.results, n.writes, strict=True)}
    first_read: dict[ir.Value, tuple[Node, tuple[int, ...]]] = {}
    shared: list[tuple[Node, tuple[int, ...], Node, tuple[int, ...]]] = []
    for node in nodes:
        for read in node.reads:
            if read.value in written:
                writer, dims = written[read.value]
                _unify_dims(space, writer, dims, node, read.dims)
            elif read.value in first_read:
                shared.append((*first_read[read.value], node, read.dims))
            else:
                first_read[read.value] = (node, read.dims)
    space.check(nodes)
    for a, a_dims, b, b_dims in shared:
        if _sum_differently(a, a_dims, b, b_dims):
            continue
        if all(space.find((a.index, da)) == space.find((b.index, db)) for da, db in zip(a_dims, b_dims, strict=True)):
            continue
        # Two readers of one input share its classes if that causes no conflict; they need not.
        attempt = space.copy()
        _unify_dims(attempt, a, a_dims, b, b_dims)
        try:
            attempt.check(nodes)
        except Conflict:
            continue
        space = attempt
    return space


def _sum_differently(a: Node, a_dims: Sequence[int], b: Node, b_dims: Sequence[int]) -> bool:
    """Whether two products read a tensor that one of them sums along another dim than the other, as attention's
    gradient reads its keys: no loop could do both."""
    if a.product is None or b.product is None:
        return False
    return any(a.parallel[da] != b.parallel[db] for da, db in zip(a_dims, b_dims, strict=True))


def _unify_dims(space: Space, a: Node, a_dims: Sequence[int], b: Node, b_dims: Sequence[int]) -> None:
    for da, db in zip(a_dims, b_dims, strict=True):
        space.unify((a.index, da), (b.index, db))


def class_sizes(space: Space, nodes: Iterable[Node]) -> dict[Loop, int]:
    """The estimated size of each class, in order of first appearance."""
    sizes: dict[Loop, int] = {}
    for node in nodes:
        for c, size in zip(space.classes[node.index], node.hints, strict=True):
            sizes.setdefault(c, size)
    return sizes


def parallel_classes(
    space: Space, nodes: Sequence[Node], internal: set[int], free: Collection[int] = (), rows: int = 1
) -> set[Loop]:
    """The classes that tiles may run over.

    A node that lacks a class is repeated for each tile along the class. This is allowed if the node is `internal`
    (by index; nothing outside the group reads it) and the repetition is cheap; for nodes in `free` it always is. A tile
    has at least `rows` points along the class if nothing is reduced.
    """
    sizes = class_sizes(space, nodes)
    chosen = set(sizes)
    classes = {n.index: dict(zip(space.classes[n.index], n.parallel, strict=True)) for n in nodes}
    work = sum(n.elements for n in nodes)
    if not all(all(n.parallel) for n in nodes):
        rows = 1
    for node in nodes:
        for root in list(chosen):
            if root in classes[node.index]:
                if not classes[node.index][root]:
                    chosen.discard(root)
            elif node.index not in internal:
                chosen.discard(root)
    for node in nodes:
        if node.index in free:
            continue
        repeated = node.elements
        lacking = [root for root in chosen if root not in classes[node.index]]
        for root in lacking:
            repeated *= sizes[root]
        if lacking and repeated > _REPEAT_SHARE * work * rows:
            chosen.difference_update(lacking)
    return chosen


def tile_bytes(nodes: Sequence[Node], space: Space, parallel: Collection[Loop], inside: Collection[int]) -> int:
    """Bytes per tile of the tensors that pass between nodes of the group. An elementwise node of `inside` (read only by
    the group) with a single reader is computed in that reader's loops, so its result takes no memory."""
    written = {r: (n, i) for n in nodes for i, r in enumerate(n.results)}
    passed = Counter(read.value for n in nodes for read in n.reads if read.value in written)
    total = 0
    for value, readers in passed.items():
        node, place = written[value]
        if readers == 1 and node.index in inside and len(node.results) == 1 and all(node.parallel):
            continue
        count = byte_size(spelling_of(value))
        for size, d in zip(node.result_hints[place], node.writes[place], strict=True):
            if space.find((node.index, d)) not in parallel:
                count *= size
        total += count
    return total
