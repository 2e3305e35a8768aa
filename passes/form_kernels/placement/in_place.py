"""Lets kernels write in place: an output takes over the memory of an input that is dead after the kernel.

    host.launch(%h, %y) {@gelu}   →   host.launch(%h) {@gelu}, whose one argument is read and written

The two become one argument of the kernel, so no promise about aliasing is broken. This is allowed if loops walk
input and output alike, the input is the whole of a buffer that the host function allocates, and the generic that
writes the output is the kernel's last: every other read of the tile has happened by then.

A returned value may take over a donated argument as well: for example, a loss's gradient the tensor that the forward
graph saved for it. Other values may not: they would keep the argument alive although the arena may have room.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_function import donated_arguments
from cuesta.dialects.types import byte_size, memref_shape, shape_of, spelling_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.limits import FusionLimits
from cuesta.passes.form_kernels.fusion.nodes import Item, Node
from cuesta.passes.form_kernels.kernels.kernel import Kernel, Operand
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.sizes import hint

Value: TypeAlias = ir.Value

_NEVER = 1 << 62


def last_uses(order: Sequence[Item | Group], returned: Sequence[Value], placed: Sequence[Value]) -> dict[Value, int]:
    """Root → the position in `order` of the last unit that reads it; results and parts of a
    concatenation never die."""
    last: dict[Value, int] = {}
    for position, unit in enumerate(order):
        for item in unit.members if isinstance(unit, Group) else [unit]:
            if item.op.name in VIEWS:
                continue
            gathers = item.gathers if isinstance(item, Node) else ()
            for value in (*item.op.operands, *gathers):
                last[alias_root(value)] = position
    for value in (*returned, *placed):
        last[alias_root(value)] = _NEVER
    return last


def donated_reuse(function: func.FuncOp, machine: FusionLimits) -> set[int]:
    """The numbers of the donated arguments that are large enough for a result to take them over."""
    donated = donated_arguments(function) if machine.donated_reuse_from is not None else []
    return {
        ir.BlockArgument(value).arg_number for value in donated if _bytes_of(value) >= (machine.donated_reuse_from or 0)
    }


def _bytes_of(value: Value) -> int:
    return hint(math.prod(shape_of(value))) * byte_size(spelling_of(value))


def reuse_inputs(kernel: Kernel, where: Assignment) -> dict[Value, int]:
    """Merges outputs of `kernel` with inputs that die in it. Returns output value → the base that it takes over."""
    taken: dict[Value, int] = {}
    if any(kn.tail for kn in kernel.nodes):
        return taken
    last = kernel.nodes[-1]
    for output in kernel.outputs:
        if output.layout is not None or not any(output is r for r in last.results):
            continue
        for source in sorted(kernel.inputs, key=lambda s: s.base not in where.donated_reuse):
            base = source.base
            if base is None or not (source.contiguous and source.walked_as(output)):
                continue
            if not _may_lie_in(output, source, where):
                continue
            if base in taken.values() or math.prod(memref_shape(where.bases[base].type)[0]) != math.prod(source.sizes):
                continue
            if sum(o.base == base for o in (*kernel.inputs, *kernel.gathered)) > 1:
                continue
            taken[output.value] = base
            kernel.inputs.remove(source)
            for kn in kernel.nodes:
                kn.reads = [output if r is source else r for r in kn.reads]
            break
    return taken


def _may_lie_in(output: Operand, source: Operand, where: Assignment) -> bool:
    """Whether `output` may take over the memory of `source`: the host function allocates that memory, or a library for
    it, or it is donated and `output` is a result; and nothing reads it after the kernel being built."""
    assert source.layout is not None
    if source.layout.base not in where.donated_reuse:
        # A result has memory of its own: what a library allocates is not known to begin and end with the tensor.
        is_possible = output.value not in where.results or not where.is_librarys(source.layout)
        return is_possible and where.dies(source.value, source.layout)
    # The argument's tensor becomes the result as it is, so their dtypes must be equal. Equal spellings ensure that for
    # floats only: several integer dtypes share a spelling.
    return output.value in where.results and "f" in output.spelling and where.is_last_use(source.value)
