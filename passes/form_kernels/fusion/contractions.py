"""Answers questions about sums that become kernels, such as products that are a multiplication and a sum: on a CPU both
are to be one kernel, which reads a factor once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta.passes.form_kernels.fusion.limits import FusionLimits
from cuesta.passes.form_kernels.fusion.nodes import Node
from cuesta.passes.form_kernels.fusion.space import Space, class_sizes
from cuesta.sizes import estimate
from cuesta.sizes.powers import power_at_least

#: The most elements of a short sum, such as that of a quantised weight's group: a thread or a few have all of them. And
#: the most elements of a tile that short sums span.
SHORT, SPANNED = 128, 1 << 13
#: The nodes of a kernel, their loops' classes, and the classes that its tiles cut.
Tiled: TypeAlias = "tuple[Sequence[Node], Space, set[tuple[int, int]]]"


def multiplies_for(reader: Node | None, node: Node) -> bool:
    """Whether `reader`, the only reader of a node, sums what the node multiplies: it has more elements than each of its
    operands. In another kernel than the sum, all these elements would be in memory."""
    if reader is None or all(reader.parallel) or not all(node.parallel) or len(node.reads) < 2:
        return False
    return all(len(read.dims) < len(node.sizes) for read in node.reads)


def walk_refusal(limits: FusionLimits, kernel: Tiled, before: Sequence[Tiled]) -> str | None:
    """The reason why tiles of a kernel would walk too much, though those of the kernels `before`, which become this
    one, do not; None if there is none."""
    if limits.in_sequence and _reads_whole(limits.serial_bytes, kernel, before):
        return "each tile would read the whole of a large tensor"
    if not limits.in_sequence and _walks_rows(limits.row_elements, kernel, before):
        return "each program would walk whole rows, for a value of each row"
    return None


def _reads_whole(most: int, kernel: Tiled, before: Sequence[Tiled]) -> bool:
    """Whether each tile of a kernel would read the whole of its largest tensor, of more than `most` bytes, though tiles
    cut it in one of the kernels `before` that become this one."""
    nodes, space, parallel = kernel
    large = [(n, r) for n in nodes for r in n.reads if r.bytes > most]
    if not large:
        return False
    node, read = max(large, key=lambda pair: pair[1].bytes)
    if any(space.classes[node.index][d] in parallel for d in read.dims):
        return False
    own = next((each for each in before if node in each[0]), None)
    return own is not None and any(own[1].classes[node.index][d] in own[2] for d in read.dims)


def _walks_rows(most: int, kernel: Tiled, before: Sequence[Tiled]) -> bool:
    """Whether elementwise work on rows of more than `most` elements would lose the loop along them, which a kernel of
    `before` has. What else reads the rows could then not join: the values of a whole row would be between the ops."""
    nodes, space, parallel = kernel
    if not all(all(node.parallel) for node in nodes):
        return False
    sizes = class_sizes(space, nodes)
    lost = {space.find(root) for _, _, own in before for root in own} - parallel
    return any(sizes[root] > most for root in lost)


def is_one_sum(nodes: Sequence[Node], parallel: set[tuple[int, int]]) -> bool:
    """Whether a kernel reduces all that it walks, of known size, to single numbers."""
    known = all(isinstance(size, int) for node in nodes for size in node.sizes)
    return known and not parallel and not all(all(node.parallel) for node in nodes)


def holds_stages(limits: FusionLimits, kernel: Tiled) -> bool:
    """Whether a program can hold what each reduction of a kernel spans, where the reduction keeps a loop within the
    tile. Short reductions may span more. So may reductions of rows, if others run down the same rows: a program then
    walks the rows, and holds one."""
    nodes, space, parallel = kernel
    if limits.staged_elements is None:
        return True
    for node in nodes:
        if all(node.parallel):
            continue
        loops = list(zip(space.classes[node.index], node.sizes, node.parallel, strict=True))
        kept = {root: size for root, size, is_kept in loops if is_kept and root not in parallel}
        within = {root: size for root, size, _ in loops if root not in parallel}
        count, whole = estimate(kept.values()), estimate(within.values())
        limit = SPANNED if whole // max(count, 1) <= SHORT else limits.staged_elements
        if count > 1 and whole > limit:
            row = estimate(power_at_least(estimate([size])) for root, size in within.items() if root not in kept)
            down = _reduced_beside(node, nodes, space)
            if not kept.keys() <= down or row > limits.row_elements:
                return False
    return True


def _reduced_beside(node: Node, nodes: Sequence[Node], space: Space) -> set[tuple[int, int]]:
    """The loops along which other nodes run down the rows that a node reduces: they reduce these loops, and keep the
    node's."""
    found: set[tuple[int, int]] = set()
    own = {root for root, kept in zip(space.classes[node.index], node.parallel, strict=True) if not kept}
    for other in nodes:
        loops = list(zip(space.classes[other.index], other.parallel, strict=True))
        if own & {root for root, kept in loops if kept}:
            found.update(root for root, kept in loops if not kept)
    return found
