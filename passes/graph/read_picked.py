"""Reads the one element of each long row that a masked sum picks, instead of summing the row.

    %hit = cuesta.eq(0 1 2 …, %t[N, 1])                    %1 = cuesta.gather(%x, %t) : tensor<Nx1xbf16>
    %row = cuesta.sub(cuesta.convert(%x), %m[N, 1])   →    %2 = cuesta.sub(cuesta.convert(%1), %m)
    %p = cuesta.sum(cuesta.where(%hit, %row, 0))           %p = cuesta.where(%t in bounds, %2, 0)

So a loss takes the logarithm of the target's probability out of a row of log-probabilities. Where one block of a
program holds the row, the sum costs nothing. A longer row would be read once more.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.indexing import Gather
from cuesta.dialects.cuesta.pointwise import Where
from cuesta.dialects.cuesta.shape import Constant, Iota
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()
_SUM, _EQ = reduction.OPS["sum"], pointwise.OPS["eq"]
#: A row of at most this many elements is summed: one block of a program holds it, as it does many a longer one.
_SUMMED = 4096
#: The most ops that are repeated for the picked element, and the most tensors that it is read from.
_MOST_OPS, _MOST_READS = 16, 2


@register_pass("read-picked")
class ReadPicked(Pass):
    """Turns sums that pick one element of each long row into reads."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {_SUM.OPERATION_NAME: _read})
        erase_dead(module)


def _read(op: ir.Operation) -> Sequence[ir.Value] | None:
    where = maker(op.operands[0], Where)
    sizes = shape_of(op.operands[0])
    if where is None or len(sizes) != 2 or _SUM.dims.of(op) != [1]:
        return None
    if not isinstance(sizes[1], int) or sizes[1] <= _SUMMED:
        return None
    hit, row, other = where.operands
    column, zero = _column(hit), maker(other, Constant)
    if column is None or zero is None or Constant.value.of(zero) != 0 or shape_of(row) != sizes:
        return None
    cone = _cone(row)
    if cone is None:
        return None
    picked = _picked(row, column, cone)
    inside = _B.pointwise("logical_and", _B.with_number("ge", column, 0), _B.with_number("lt", column, sizes[1]))
    value = _B.where(inside, picked, other)
    return [_B.reshape(value, list(shape_of(op.results[0])))]


def _column(hit: ir.Value) -> ir.Value | None:
    """The position of each row whose element a mask picks; None for other masks."""
    equal = maker(hit, _EQ)
    if equal is None:
        return None
    places, column = equal.operands
    ramp = maker(places, Iota)
    if ramp is None or (Iota.start.of(ramp), Iota.step.of(ramp)) != (0, 1) or shape_of(column)[1:] != (1,):
        return None
    return column if len(shape_of(places)) == 1 and spelling_of(column) == "i64" else None


def _cone(row: ir.Value) -> list[ir.Operation] | None:
    """The pointwise ops that compute rows from tensors in memory, operands first; None if they are too many to repeat,
    read too many tensors, or read one that has an element for each place of a row, but not for each row."""
    sizes, found = shape_of(row), list[ir.Operation]()
    reads: set[ir.Value] = set()

    def visit(value: ir.Value) -> bool:
        owner = value.owner
        if shape_of(value) != sizes:
            return shape_of(value)[-1:] in ((), (1,))
        if isinstance(owner, ir.Block) or owner.name not in POINTWISE:
            reads.add(value)
        elif owner not in found:
            if not all(map(visit, owner.operands)):
                return False
            found.append(owner)
        return len(found) <= _MOST_OPS and len(reads) <= _MOST_READS

    return found if visit(row) else None


def _picked(row: ir.Value, column: ir.Value, cone: Sequence[ir.Operation]) -> ir.Value:
    """The element of each row at the position in `column`, computed from elements that are read there."""
    made: dict[ir.Value, ir.Value] = {}
    sizes = shape_of(column)

    def at(value: ir.Value) -> ir.Value:
        if shape_of(value) != shape_of(row):
            return value
        if value not in made:
            made[value] = Gather(value, column, 1, types.tensor(sizes, spelling_of(value))).result
        return made[value]

    for op in cone:
        operands = [at(x) for x in op.operands]
        (result,) = op.results
        made[result] = repeat_op(op, operands, types.tensor(sizes, spelling_of(result))).result
    return at(row)
