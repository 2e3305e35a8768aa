"""Lets kernels write in place: an output takes over the memory of an input that is dead after the kernel.

    host.launch(%h, %y) {@gelu}   →   host.launch(%h) {@gelu}, whose one argument is read and written

The two become one argument of the kernel, so no promise about aliasing is broken. This is allowed if loops walk
input and output alike, the input is the whole of a buffer that the host function allocates, and the generic that
writes the output is the kernel's last: every other read of the tile has happened by then. On a GPU generics that sum
the output may follow: a program writes what it also reads in its last loop.

A donated argument may be taken over as well. On a CPU a returned value takes it: for example, a loss's gradient the
tensor that the forward graph saved for it. Other values do not: they would keep the argument alive although the arena
may have room. On a GPU they do, because the arena is allocated before the arguments are freed: the gradient of a
language model's logits, larger than all else, lies where the logits were. Returned values do not, as `FusionLimits`
says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import host
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_function import donated_arguments
from cuesta.dialects.types import byte_size, memref_shape, shape_of, spelling_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.form_kernels.fusion.grouping import Group
from cuesta.passes.form_kernels.fusion.limits import FusionLimits
from cuesta.passes.form_kernels.fusion.nodes import Item, Node
from cuesta.passes.form_kernels.kernels.kernel import Kernel, Operand
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.sizes import Number, hint

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
    """The numbers of the donated arguments that are large enough to be taken over."""
    donated = donated_arguments(function)
    return {ir.BlockArgument(value).arg_number for value in donated if _bytes_of(value) >= machine.donated_reuse_from}


def _elements(memory: Value) -> tuple[Number, ir.Type]:
    """How many elements of which type a buffer has."""
    return math.prod(memref_shape(memory.type)[0]), ir.MemRefType(memory.type).element_type


def _bytes_of(value: Value) -> int:
    return hint(math.prod(shape_of(value))) * byte_size(spelling_of(value))


def reuse_inputs(kernel: Kernel, where: Assignment, machine: FusionLimits) -> dict[Value, int]:
    """Merges outputs of `kernel` with inputs that die in it. Returns output value → the base that it takes over."""
    taken: dict[Value, int] = {}
    if any(kn.tail for kn in kernel.nodes):
        return taken
    for output in kernel.outputs:
        sources = _read_before(kernel, output, machine)
        if output.layout is not None:
            _reuse_for_whole(kernel, output, sources, where)
            continue
        for source in sorted(sources, key=lambda s: s.base not in where.donated_reuse):
            base = source.base
            if base is None or not (source.contiguous and source.walked_as(output)):
                continue
            if not _may_lie_in(output, source, where):
                continue
            if base in taken.values() or _elements(where.bases[base])[0] != math.prod(source.sizes):
                continue
            if sum(o.base == base for o in (*kernel.inputs, *kernel.gathered)) > 1:
                continue
            taken[output.value] = base
            _merge(kernel, output, source)
            break
    return taken


def _read_before(kernel: Kernel, output: Operand, machine: FusionLimits) -> list[Operand]:
    """The inputs of which every read of a tile happens before the tile of `output` is written."""
    (at,) = (i for i, kn in enumerate(kernel.nodes) if any(output is r for r in kn.results))
    behind = kernel.nodes[at + 1 :]
    within = all(set(kn.loops) <= set(kernel.nodes[at].loops) for kn in behind)
    if behind and (machine.in_sequence or not within):
        return []
    return [source for source in kernel.inputs if not any(r is source for kn in behind for r in kn.reads)]


def _merge(kernel: Kernel, output: Operand, source: Operand) -> None:
    """Makes an output and an input one argument of the kernel."""
    kernel.inputs.remove(source)
    for kn in kernel.nodes:
        kn.reads = [output if r is source else r for r in kn.reads]


def _reuse_for_whole(kernel: Kernel, output: Operand, sources: Sequence[Operand], where: Assignment) -> None:
    """Lets the buffer that `output` is placed in, such as that of a padded tensor, take over a donated argument of
    `sources`, where the kernel reads the argument in the same places and is the first to write the buffer."""
    assert output.layout is not None
    number = output.layout.base
    buffer = where.bases[number]
    if isinstance(buffer.owner, ir.Block) or not host.Alloc.matches(buffer.owner) or any(True for _ in buffer.uses):
        return
    if where.donated_to_results or any(where.placed[r].base == number for r in where.results & where.placed.keys()):
        return
    for source in sources:
        if source.layout is None or source.base not in where.donated_reuse:
            continue
        argument = where.bases[source.base]
        if (
            source.layout.offset == output.layout.offset
            and source.walked_as(output)
            and _elements(argument) == _elements(buffer)
            and where.is_last_use(source.value)
            and sum(o.base == source.base for o in (*kernel.inputs, *kernel.gathered)) == 1
        ):
            _merge(kernel, output, source)
            where.bases[number] = argument
            where.donated_reuse.discard(source.base)
            buffer.owner.erase()
            return


def _may_lie_in(output: Operand, source: Operand, where: Assignment) -> bool:
    """Whether `output` may take over the memory of `source`: the host function allocates that memory, or a library for
    it, or it is donated for values such as `output`; and nothing reads it after the kernel being built."""
    assert source.layout is not None
    if source.layout.base not in where.donated_reuse:
        # A result has memory of its own: what a library allocates is not known to begin and end with the tensor.
        is_possible = output.value not in where.results or not where.is_librarys(source.layout)
        return is_possible and where.dies(source.value, source.layout)
    if (output.value in where.results) != where.donated_to_results or not where.is_last_use(source.value):
        return False
    # The argument's tensor becomes a result as it is, so their dtypes must be equal. Equal spellings ensure that for
    # floats only: several integer dtypes share a spelling.
    return "f" in output.spelling or not where.donated_to_results
