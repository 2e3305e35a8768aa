"""Lets a kernel write the new value of an argument over the old one, for arguments that the graph writes to in place.

    %v = 0.9 * %mean + 0.1 * %batch      host.launch(%batch, %mean) {@update}, which reads and writes %mean
    copy(%v, %mean)                  →

This is allowed if only the kernel that computes the new value reads the old one, which may then be overwritten
at any time of the call. The kernel itself must read each place before it writes it; `updates_last` and
`in_order` check that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import Layout, is_dense
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.limits import FusionLimits
from cuesta.passes.form_kernels.fusion.nodes import Item, Node
from cuesta.passes.form_kernels.kernels.kernel import Kernel, Operand

Value: TypeAlias = ir.Value


def place_updates(
    updates: Sequence[tuple[Value, Value]],
    returned: Sequence[Value],
    items: Sequence[Item],
    groups: Mapping[int, Group],
    layouts: Mapping[Value, Layout],
    root_of_result: Callable[[Value], tuple[Value, list[int]] | None],
    taken: Collection[Value],
) -> dict[Value, Layout]:
    """Result of a generic → the argument's place, for each (new value, argument) of `updates` that can be made there.

    `returned` holds all that the graph returns, including the new values; `groups` maps a generic's index to its group;
    `layouts` has the places of arguments; `root_of_result` finds the result of a generic that a value is a view of;
    results in `taken` have a place already.
    """
    readers = readers_of(items)
    writer = {result: item.index for item in items for result in item.op.results}
    seen = Counter(alias_root(value) for value in returned)
    found: dict[Value, Layout] = {}
    for value, argument in updates:
        root = root_of_result(value)
        layout = layouts[argument]
        if root is None or root[0] in taken or root[0] in found or not is_dense(layout.sizes, layout.strides):
            continue
        # If the new or the old value is also returned as a result, the new value needs memory of its own.
        if seen[root[0]] != 1 or argument in seen:
            continue
        group = groups[writer[root[0]]]
        if readers.get(argument, set()) <= {node.index for node in group.members}:
            kept = root[1]
            sizes, strides = (tuple(ns[d] for d in kept) for ns in (layout.sizes, layout.strides))
            found[root[0]] = Layout(layout.base, layout.offset, sizes, strides)
    return found


def readers_of(items: Sequence[Item]) -> dict[Value, set[int]]:
    """Root → the items that read it, directly or through views."""
    readers: dict[Value, set[int]] = {}
    for item in items:
        if item.op.name in VIEWS:
            continue
        gathers = item.gathers if isinstance(item, Node) else ()
        for value in (*item.op.operands, *gathers):
            readers.setdefault(alias_root(value), set()).add(item.index)
    return readers


def merge_updates(kernel: Kernel, updated: Mapping[Value, Layout], machine: FusionLimits) -> list[Value]:
    """Merges each output in `updated` and the input in the same place into one argument of the kernel.

    Returns the outputs for which this is impossible: they must be written elsewhere, and copied.
    """
    refused = []
    for output in kernel.outputs:
        if output.value not in updated:
            continue
        sources = [o for o in (*kernel.inputs, *kernel.gathered) if o.base == output.base]
        if not sources:
            continue
        (source, *others) = sources
        if (
            others
            or source not in kernel.inputs
            or not source.walked_as(output)
            or not (updates_last(kernel, source, output) or in_order(kernel, source, output, machine))
        ):
            refused.append(output.value)
            continue
        kernel.inputs.remove(source)
        for kn in kernel.nodes:
            kn.reads = [output if r is source else r for r in kn.reads]
    return refused


def updates_last(kernel: Kernel, source: Operand, output: Operand) -> bool:
    """Whether only `output` depends on `source`, so that no reader of `source` is recomputed after `output` has been
    written."""
    reached: list[Operand] = [source]
    for kn in kernel.nodes:
        if any(r is known for r in kn.reads for known in reached):
            if any(r is output for r in kn.reads) or kn.tail:
                return False
            reached += kn.results
    last = reached[1:]
    return all(o is output or o not in kernel.outputs for o in last) and any(o is output for o in last)


def in_order(kernel: Kernel, source: Operand, output: Operand, machine: FusionLimits) -> bool:
    """Whether each place of `source` belongs to one tile, which recomputes no value, and every reader of `source` comes
    before the readers of `output`. The order matters because the two become one tensor."""
    at = [any(r is output for r in kn.results) for kn in kernel.nodes].index(True)
    loops, tiles, places = set(kernel.order), set(kernel.parallel), set(source.classes)
    if machine.in_sequence:
        owned = kernel.nodes[at].tail or tiles <= places  # a tail waits for all tiles
    else:
        owned = tiles == loops == places and not any(kn.tail for kn in kernel.nodes)
    return owned and not any(r is source for kn in kernel.nodes[at + 1 :] for r in kn.reads)
