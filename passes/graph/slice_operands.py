"""Takes slices of what an elementwise op reads, where nothing but slices reads its result.

    %2 = cuesta.add(%0, %1)                : 32x2048      %3 = cuesta.slice(%0) {starts = [0, 0]}    : 32x512
    %3 = cuesta.slice(%2) {starts = [0, 0]}   : 32x512    %4 = cuesta.slice(%1) {starts = [0, 0]}    : 32x512
    %4 = cuesta.slice(%2) {starts = [0, 512]} : 32x512 →  %5 = cuesta.add(%3, %4)                    : 32x512
    …                                                     …

Elementwise ops are one kernel where they compute an element from operands at the same position. The four gates of an
LSTM read a sum at four positions, so that the sum would be a kernel of its own. The sums of the four parts join the
kernel of the gates. An op stays whole where anything but elementwise ops reads a slice, because then the slice has to
be in memory, and where an operand would have to be written for its slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import aten, maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Constant, Iota, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import number
from cuesta.passes.graph.concatenations.free_parts import are_parts_free
from cuesta.passes.graph.reshapes.hoist_reshapes import CHEAP, POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
#: Ops whose result is in memory, or is computed from its position.
_COSTS_NOTHING = names_of(Constant, Iota) | {aten.Call.OPERATION_NAME}
#: The most cheap ops in a row that are repeated for slices of their result.
_MOST_REPEATED = 4


@register_pass("slice-operands")
class SliceOperands(Pass):
    """Moves slices above elementwise ops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                # Up the program: slices that have moved may move again.
                for view in reversed(list(function.regions[0].blocks[0].operations)):
                    op = view.operation
                    if op.name in POINTWISE and _is_read_in_parts(op) and _reads_parts(op):
                        _move(op)
        erase_dead(module)


def _is_read_in_parts(op: ir.Operation) -> bool:
    """Whether only slices read a result, together no more elements than it has, and only elementwise ops read these."""
    (result,) = op.results
    slices = set(users(result))
    if not slices or not all(map(_is_part, slices)):
        return False
    taken = sum(math.prod(map(int, shape_of(part.results[0]))) for part in slices)
    return taken <= math.prod(map(int, shape_of(result)))


def _is_part(op: ir.Operation) -> bool:
    """Whether an op is a slice of known sizes, and only elementwise ops read it, perhaps in another shape."""
    if not Slice.matches(op) or any(step != 1 for step in Slice.steps.of(op)):
        return False
    sizes = (*Slice.starts.of(op), *shape_of(op.results[0]), *shape_of(op.operands[0]))
    readers = _readers(op)
    return all(isinstance(n, int) for n in sizes) and bool(readers) and all(user.name in POINTWISE for user in readers)


def _readers(op: ir.Operation) -> list[ir.Operation]:
    """What reads an op's result, or a reshape of it."""
    found = [[user] if not Reshape.matches(user) else users(user.results[0]) for user in users(op.results[0])]
    return [user for readers in found for user in readers]


def _reads_parts(op: ir.Operation) -> bool:
    """Whether slices of an op's operands cost nothing, or next to nothing."""
    return all(are_parts_free(x, op, _COSTS_NOTHING, _is_repeated) for x in op.operands)


def _is_repeated(value: ir.Value, most: int = _MOST_REPEATED) -> bool:
    """Whether a value with other readers is computed once more for its slices: by at most `most` cheap ops in a row,
    from what is in memory."""
    op = maker(value)
    if op is None or op.name not in CHEAP or most == 0:
        return False
    made = [x for x in op.operands if (owner := maker(x)) is not None and owner.name not in _COSTS_NOTHING]
    return all(_is_repeated(x, most - 1) for x in made)


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
    if taken == shape:
        return value
    if known is not None:
        return _B.constant(known, spelling_of(value), taken)
    if len(users(value)) > 1 and _is_repeated(value):
        op = value.owner
        parts = [_sliced(x, [s for s, _ in own], taken) for x in op.operands]
        return repeat_op(op, parts, types.tensor(taken, spelling_of(value))).results[0]
    return Slice(value, [s for s, _ in own], [1] * len(own), result=types.tensor(taken, spelling_of(value))).result
