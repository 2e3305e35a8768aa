"""Finds small tensors that large kernels read across, such as the cosines of a rotary embedding.

    %cos = cos(permute(%angles))                   512x64, written like %angles: 512 numbers of each of 64 columns
    mul(%q, %cos)                                  8x512x9x64, walked along the 64

Read across, each number of a row of 64 is a transfer from memory of its own, for each of the rows of %q. The kernel
that makes the small tensor can as well write it in the order in which the large one walks it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.named_linalg import is_generic
from cuesta.dialects.types import shape_of
from cuesta.dialects.upstream_fields import ITERATOR_TYPES, PARALLEL
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import dense_strides
from cuesta.passes.form_kernels.fusion.grouping import Group, Grouping
from cuesta.passes.form_kernels.fusion.nodes import Item
from cuesta.sizes import Number, estimate

Value: TypeAlias = ir.Value
#: What a kernel reads from memory: a tensor, and the class of the kernel's loops that walks each of its dims.
_Access: TypeAlias = "tuple[Value, list[tuple[int, int]]]"

#: How many elements of the largest tensor there are for each of a table's, at least.
_TIMES = 8


def turned_tables(
    items: Sequence[Item], grouping: Grouping, returned: Container[Value]
) -> Iterator[tuple[Value, Sequence[Number]]]:
    """Tables that kernels read across, each with the strides that its largest reader wants, the largest first."""
    groups = {id(group): group for item in items if (group := grouping.group.get(item.index)) is not None}
    for group in sorted(groups.values(), key=lambda g: -max(node.elements for node in g.members)):
        accesses = _read_from_memory(group)
        if not accesses:
            continue
        whole, walks = max(accesses, key=lambda access: estimate(shape_of(access[0])))
        order = [walks[d] for d in grouping.memory.order(whole)]
        for table, own in accesses:
            walked = [c for c in order if c in own]
            natural = [own[d] for d in grouping.memory.order(table)]
            is_small = _TIMES * estimate(shape_of(table)) <= estimate(shape_of(whole))
            is_across = len(walked) == len(own) and natural[-1:] != walked[-1:]
            if is_small and is_across and _may_turn(alias_root(table), returned):
                yield table, dense_strides(shape_of(table), [own.index(c) for c in walked])


def _read_from_memory(group: Group) -> list[_Access]:
    """What the elementwise ops of a kernel read that it does not compute."""
    made = {result for node in group.members for result in node.results}
    nodes = [node for node in group.members if node.product is None and not node.windows]
    return [
        (read.value, [group.space.find((node.index, loop)) for loop in read.dims])
        for node in nodes
        for read in node.reads
        if read.value not in made
    ]


def _may_turn(root: Value, returned: Container[Value]) -> bool:
    """Whether a kernel writes a tensor element by element, in any order."""
    if isinstance(root.owner, ir.Block) or not is_generic(root.owner) or root in returned:
        return False
    return all(kind == PARALLEL for kind in ITERATOR_TYPES.of(root.owner))
