"""Takes slices of what an elementwise op reads, where nothing but slices reads its result.

    %2 = cuesta.add(%0, %1)                : 32x2048      %3 = cuesta.slice(%0) {starts = [0, 0]}    : 32x512
    %3 = cuesta.slice(%2) {starts = [0, 0]}   : 32x512    %4 = cuesta.slice(%1) {starts = [0, 0]}    : 32x512
    %4 = cuesta.slice(%2) {starts = [0, 512]} : 32x512 →  %5 = cuesta.add(%3, %4)                    : 32x512
    …                                                     …

A kernel computes each element for the same position of its results. A sum that the four gates of an LSTM read in parts
would be a kernel of its own. Sums of parts join the kernel of the gates. The sum stays whole where a slice is read by
anything but elementwise ops, which needs it in memory, and where an operand would have to be written for its slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import aten, maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Constant, Iota, Slice
from cuesta.dialects.cuesta.views import SELECTS_ELEMENTS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of, spelling_of
from cuesta.passes.analysis.match import number
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
#: Ops whose result is in memory, or is computed from its position.
_COSTS_NOTHING = names_of(Constant, Iota) | {aten.Call.OPERATION_NAME}

#: An operand of at most this share of the result's bytes may be written to memory.
_SMALL = 0.25


@register_pass("slice-operands")
class SliceOperands(Pass):
    """Moves slices above elementwise ops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                # Up the program: slices that have moved may move again.
                for view in reversed(list(function.regions[0].blocks[0].operations)):
                    op = view.operation
                    if op.name in POINTWISE and _is_read_in_parts(op) and all(_is_read(x, op) for x in op.operands):
                        _move(op)
        erase_dead(module)


def _is_read_in_parts(op: ir.Operation) -> bool:
    """Whether all readers of a result are slices that take no element twice, for elementwise ops."""
    (result,) = op.results
    slices = set(users(result))
    if not slices or not all(map(_is_part, slices)):
        return False
    taken = sum(math.prod(map(int, shape_of(part.results[0]))) for part in slices)
    return taken <= math.prod(map(int, shape_of(result)))


def _is_part(op: ir.Operation) -> bool:
    """Whether an op is a slice of known sizes, and only elementwise ops read it."""
    if not Slice.matches(op) or any(step != 1 for step in Slice.steps.of(op)):
        return False
    sizes = (*Slice.starts.of(op), *shape_of(op.results[0]), *shape_of(op.operands[0]))
    readers = users(op.results[0])
    return all(isinstance(n, int) for n in sizes) and bool(readers) and all(user.name in POINTWISE for user in readers)


def _is_read(value: ir.Value, user: ir.Operation) -> bool:
    """Whether slices of a value cost nothing: it is in memory, is small, or `user` alone computes it from such."""
    op = maker(value)
    while op is not None and op.name in SELECTS_ELEMENTS:
        op = maker(op.operands[0])
    if op is None or op.name in _COSTS_NOTHING or byte_count(value) <= _SMALL * byte_count(user.results[0]):
        return True
    if op != maker(value) or op.name not in POINTWISE or any(other != user for other in users(value)):
        return False
    return all(_is_read(x, op) for x in op.operands)


def _move(op: ir.Operation) -> None:
    """Replaces each slice of an op's result by the op on slices of the operands."""
    for part in set(users(op.results[0])):
        starts, (result,) = Slice.starts.of(part), part.results
        with ir.InsertionPoint(part), part.location:
            operands = [_sliced(x, starts, shape_of(result)) for x in op.operands]
            kind = types.tensor(shape_of(result), spelling_of(result))
            replace(part, [repeat_op(op, operands, kind).results[0]])
    op.erase()


def _sliced(value: ir.Value, starts: Sequence[Number], sizes: Sequence[Number]) -> ir.Value:
    """The elements of an operand that a part of the result reads. Dims are aligned at the end, as in torch; those of
    size 1 are read whole."""
    shape, known = shape_of(value), number(value)
    first = len(sizes) - len(shape)
    own = [(0, 1) if n == 1 else (starts[d], sizes[d]) for d, n in enumerate(shape, first)]
    taken = tuple(size for _, size in own)
    if known is not None:
        return _B.constant(known, spelling_of(value), taken)
    if taken == shape:
        return value
    return Slice(value, [s for s, _ in own], [1] * len(own), result=types.tensor(taken, spelling_of(value))).result
