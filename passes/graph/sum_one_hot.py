"""Replaces sums of long rows that are zero but for one known element by that element.

    %hit = cuesta.eq(0 1 2 …, %t[N, 1])
    %row = cuesta.where(%hit, %v[N, 1], 0)         %row = …
    %sum = cuesta.sum(%row) {dims = [1]}      →    %sum = cuesta.where(%t in bounds, %v, 0)

A loss's gradient by log-probabilities is such a row, and the gradient of log_softmax subtracts its sum. Without the
sum, what is left is pointwise: the row is computed where it is read, and is not written for a second kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise, reduction
from cuesta.dialects.cuesta.pointwise import Where
from cuesta.dialects.cuesta.shape import Constant, Iota
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()
_SUM, _EQ, _AND = reduction.OPS["sum"], pointwise.OPS["eq"], pointwise.OPS["logical_and"]
#: A row of at most this many elements stays summed: the program that writes what is made of the row sums it before,
#: and reads nothing twice (30522 classes on an H100: 0.87 of the memory's bandwidth).
_SUMMED = 1 << 16


@register_pass("sum-one-hot")
class SumOneHot(Pass):
    """Replaces sums along long rows of one element and zeros by the element."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {_SUM.OPERATION_NAME: _element})
        erase_dead(module)


@dataclass(frozen=True)
class _Mask:
    """A mask that is true in each row at one position, if all conditions hold for the row."""

    position: ir.Value
    conditions: tuple[ir.Value, ...]


def _element(op: ir.Operation) -> Sequence[ir.Value] | None:
    where, sizes, dims = maker(op.operands[0], Where), shape_of(op.operands[0]), _SUM.dims.of(op)
    if where is None or len(dims) != 1:
        return None
    size = sizes[dims[0]]
    if not isinstance(size, int) or size <= _SUMMED:
        return None
    hit, value, other = where.operands
    # Operands broadcast: their dims are counted from the last.
    dim = dims[0] - len(sizes)
    mask, zero = _mask(hit, size, dim), maker(other, Constant)
    if mask is None or zero is None or Constant.value.of(zero) != 0 or not _is_constant_along(value, dim):
        return None
    chosen = _B.with_number("ge", mask.position, 0)
    for condition in (_B.with_number("lt", mask.position, size), *mask.conditions):
        chosen = _B.pointwise("logical_and", chosen, condition)
    element = _B.where(chosen, value, other)
    rows = [1 if d == dims[0] else n for d, n in enumerate(sizes)]
    return [_B.reshape(element, shape_of(op.results[0]))] if list(shape_of(element)) == rows else None


def _mask(value: ir.Value, size: int, dim: int) -> _Mask | None:
    """`value` as a mask of one position along `dim`, counted from the last; None if it is another mask."""
    both = maker(value, _AND)
    if both is not None:
        for part, condition in (both.operands, reversed(both.operands)):
            found = _mask(part, size, dim)
            if found is not None and _is_constant_along(condition, dim):
                return _Mask(found.position, (*found.conditions, condition))
        return None
    equal = maker(value, _EQ)
    if equal is None:
        return None
    for places, position in (equal.operands, reversed(equal.operands)):
        if _counts(places, size, dim) and _is_constant_along(position, dim):
            return _Mask(position, ())
    return None


def _counts(value: ir.Value, size: int, dim: int) -> bool:
    """Whether a value is 0, 1, 2, … along `dim` and the same along the other dims."""
    ramp, sizes = maker(unreshaped(value), Iota), shape_of(value)
    if ramp is None or (Iota.start.of(ramp), Iota.step.of(ramp)) != (0, 1) or len(sizes) < -dim:
        return False
    return sizes[dim] == size and all(n == 1 for d, n in enumerate(sizes) if d != len(sizes) + dim)


def _is_constant_along(value: ir.Value, dim: int) -> bool:
    sizes = shape_of(value)
    return len(sizes) < -dim or sizes[dim] == 1
