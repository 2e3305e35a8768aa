"""New values of arguments that the graph writes to, computed where the old ones lie.

    %v = 0.9 * %mean + 0.1 * %batch      host.launch(%batch, %mean) {@update}, which reads and writes %mean
    copy(%v, %mean)                  →

It is allowed where nothing but the kernel that computes the new value reads the old one: it may then be overwritten
at any time of the call. The kernel itself must read each place before it writes it; `updates_last` and
`in_order` say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.passes.analysis.aliases import VIEWS, root_of
from cuesta.passes.analysis.layout import Layout, is_dense
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.limits import Machine
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
    """Generics' results → the argument's place, for those (new value, argument) of `updates` that can be written there.

    `returned` is all that the graph returns, the new values among it; `groups` has the group of each generic by its
    index, `layouts` the places of arguments; `root_of_result` finds the generic's result that a value is; results in
    `taken` have a place already.
    """
    readers = readers_of(items)
    writer = {result: item.index for item in items for result in item.op.results}
    seen = Counter(root_of(value) for value in returned)
    found: dict[Value, Layout] = {}
    for value, argument in updates:
        root = root_of_result(value)
        layout = layouts[argument]
        if root is None or root[0] in taken or root[0] in found or not is_dense(layout.sizes, layout.strides):
            continue
        # Handed out as a result as well, it needs memory of its own.
        if seen[root[0]] != 1 or argument in seen:
            continue
        group = groups[writer[root[0]]]
        if readers.get(argument, set()) <= {node.index for node in group.members}:
            kept = root[1]
            sizes, strides = (tuple(ns[d] for d in kept) for ns in (layout.sizes, layout.strides))
            found[root[0]] = Layout(layout.base, layout.offset, sizes, strides)
    return found


def readers_of(items: Sequence[Item]) -> dict[Value, set[int]]:
    """Root → the items that read it, through views or not."""
    readers: dict[Value, set[int]] = {}
    for item in items:
        if item.op.name in VIEWS:
            continue
        gathers = item.gathers if isinstance(item, Node) else ()
        for value in (*item.op.operands, *gathers):
            readers.setdefault(root_of(value), set()).add(item.index)
    return readers


def merge_updates(kernel: Kernel, updated: Mapping[Value, Layout], machine: Machine) -> list[Value]:
    """Makes one argument of each output in `updated` and the input that lies in the same place.

    Returns the outputs for which that cannot be done: they must be written elsewhere, and copied.
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
    """Whether nothing but `output` depends on `source`, so that what reads it is never computed once more after
    `output` has been written."""
    reached: list[Operand] = [source]
    for kn in kernel.nodes:
        if any(r is known for r in kn.reads for known in reached):
            if any(r is output for r in kn.reads) or kn.tail:
                return False
            reached += kn.results
    last = reached[1:]
    return all(o is output or o not in kernel.outputs for o in last) and any(o is output for o in last)


def in_order(kernel: Kernel, source: Operand, output: Operand, machine: Machine) -> bool:
    """Whether each place of `source` belongs to one tile, which computes no value again, and all that reads it comes
    before what reads `output`: the two have one name from here on."""
    at = [any(r is output for r in kn.results) for kn in kernel.nodes].index(True)
    loops, tiles, places = set(kernel.order), set(kernel.parallel), set(source.classes)
    if machine.in_sequence:
        owned = kernel.nodes[at].tail or tiles <= places  # a tail waits for all tiles
    else:
        owned = tiles == loops == places and not any(kn.tail for kn in kernel.nodes)
    return owned and not any(r is source for kn in kernel.nodes[at + 1 :] for r in kn.reads)
