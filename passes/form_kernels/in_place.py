"""Kernels that write where they read: an output takes over the memory of an input that nobody needs again.

    host.launch(%h, %y) {@gelu}   →   host.launch(%h) {@gelu}, whose one argument is read and written

The two become one argument of the kernel, so no promise about aliasing is broken. It is allowed where
input and output are walked alike, the input is the whole of a buffer of ours, and the generic that
writes the output is the kernel's last: every other read of the tile has happened by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.passes.form_kernels.grouping import Group
from cuesta.passes.form_kernels.kernel import Kernel, Operand
from cuesta.passes.form_kernels.nodes import Item, Node
from cuesta.passes.graph_rewrite import users
from cuesta.sizes import Number

Value: TypeAlias = ir.Value

#: Ops that give another view of their operand's memory.
VIEWS = frozenset(
    {
        *("cuesta.reshape", "cuesta.permute", "cuesta.expand", "cuesta.slice", "cuesta.unfold"),
        *("cuesta.view_as_real", "cuesta.view_as_complex"),
    }
)
_NEVER = 1 << 62


def root_of(value: Value) -> Value:
    """What a view is a view of, through views of views."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def returning(value: Value) -> list[ir.Operation]:
    """The users of a value that return it or make a view of it that is returned. Where there are several, the results
    are one memory to the caller, and the value must not be computed for each."""
    return [op for op in users(value) if op.name == "func.return" or (op.name in VIEWS and returning(op.results[0]))]


def last_uses(order: Sequence[Item | Group], returned: Sequence[Value], placed: Sequence[Value]) -> dict[Value, int]:
    """Root → the position in `order` of the last unit that reads it; results and parts of a
    concatenation are read for ever."""
    last: dict[Value, int] = {}
    for position, unit in enumerate(order):
        for item in unit.members if isinstance(unit, Group) else [unit]:
            if item.op.name in VIEWS:
                continue
            gathers = item.gathers if isinstance(item, Node) else ()
            for value in (*item.op.operands, *gathers):
                last[root_of(value)] = position
    for value in (*returned, *placed):
        last[root_of(value)] = _NEVER
    return last


def reuse_inputs(
    kernel: Kernel, dies: Callable[[Operand], bool], elements_of: Callable[[int], Number]
) -> dict[Value, int]:
    """Merges outputs of `kernel` with inputs that die in it; output value → the base that it takes over.

    `dies` tells whether an input's memory is ours and unread after this kernel, `elements_of` how many
    elements a base has.
    """
    taken: dict[Value, int] = {}
    if any(kn.tail for kn in kernel.nodes):
        return taken
    last = kernel.nodes[-1]
    for output in kernel.outputs:
        if output.layout is not None or not any(output is r for r in last.results):
            continue
        for source in kernel.inputs:
            base = source.base
            if base is None or not (source.contiguous and source.walked_as(output)) or not dies(source):
                continue
            if base in taken.values() or elements_of(base) != math.prod(source.sizes):
                continue
            if sum(o.base == base for o in (*kernel.inputs, *kernel.gathered)) > 1:
                continue
            taken[output.value] = base
            kernel.inputs.remove(source)
            for kn in kernel.nodes:
                kn.reads = [output if r is source else r for r in kn.reads]
            break
    return taken
