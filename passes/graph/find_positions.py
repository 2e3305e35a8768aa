"""Rewrites argmax and argmin as the extreme of a row and then its first position, so that both fill vectors.

%1 = cuesta.argmax(%0) {dim = 1}   →   %m = cuesta.amax(%0) {dims = [1]}
                                       %p = cuesta.where(%0 == %m or %0 is NaN, 0 1 2 …, the row's length)
                                       %1 = cuesta.amin(%p) {dims = [1]}

A loop that carries the best float and its position waits at every element for the element before. LLVM vectorises the
loop for integers, with a best element in each lane, and for rows that are not contiguous, with a row in each lane. Both
stay as they are.

A row that is too long for L1 is searched in parts, so that the second read of each part is from L1. The position is
then that of the first part whose extreme is the row's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.reduction import ArgMax, ArgMin, ArgReduction
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import is_float, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.graph.recomputed.in_parts import in_parts
from cuesta.passes.infra.graph_rewrite import Rule, functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, Size

_B = GraphBuilder()

#: Op → the reduction whose result it gives the position of.
_EXTREMES = {ArgMax.OPERATION_NAME: "amax", ArgMin.OPERATION_NAME: "amin"}
#: The most elements of a part of a long row: as f32 they fill half of L1.
_PART = 4096
#: The largest number of each type, which is above any position.
_FAR = {"i32": (1 << 31) - 1, "i64": (1 << 63) - 1}


@register_pass("find-positions")
class FindPositions(Pass):
    """Makes argmax and argmin along contiguous rows of floats two reductions: the extreme, and its first position."""

    def run(self, module: ir.Module) -> None:
        memory = MemoryOrder()
        # Contiguous rows are found before anything is rewritten: MemoryOrder is keyed by values.
        rows = {
            op.operation
            for function in functions(module)
            for op in function.regions[0].blocks[0].operations
            if op.operation.name in _EXTREMES
            and is_float(spelling_of(op.operands[0]))
            and _is_along_rows(op.operation, memory)
        }
        rule: Rule = functools.partial(_find, rows=rows)
        rewrite_ops(module, dict.fromkeys(_EXTREMES, rule))


def _is_along_rows(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether the elements that an op compares are adjacent in memory."""
    sizes = shape_of(op.operands[0])
    order = [d for d in memory.order(op.operands[0]) if sizes[d] != 1]
    return bool(order) and order[-1] == ArgReduction.dim.of(op)


def _find(op: ir.Operation, rows: set[ir.Operation]) -> Sequence[ir.Value] | None:
    if op not in rows:
        return None
    (x,), dim = op.operands, ArgReduction.dim.of(op)
    sizes = shape_of(x)
    size, extreme = sizes[dim], _EXTREMES[op.name]
    position = _position_type(size)
    part = _part_of(size)
    if part is None:
        return [_B.convert(_first(extreme, x, dim, _B.along(sizes, dim, spelling=position))[1], "i64")]
    apart = in_parts(x, [*sizes[:dim], size // part, part, *sizes[dim + 1 :]])
    places = _B.along(shape_of(apart), dim + 1, spelling=position)
    extremes, within = _first(extreme, apart, dim + 1, places)
    starts = _B.along(shape_of(extremes), dim, part, spelling=position)
    return [_B.convert(_first(extreme, extremes, dim, _B.pointwise("add", within, starts))[1], "i64")]


def _first(name: str, x: ir.Value, dim: int, places: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The extreme of each row along `dim`, and the least of the `places` of the elements that are equal to it."""
    sizes = shape_of(x)
    # Without keepdim, as the amax of a maximum with its positions: cse then makes the two one.
    extreme = _B.reduce(name, x, [dim])
    beside = _B.reshape(extreme, [1 if d == dim else size for d, size in enumerate(sizes)])
    # If a row has a NaN, its extreme is NaN, which equals nothing.
    found = _B.pointwise("logical_or", _B.pointwise("eq", x, beside), _B.pointwise("ne", x, x))
    # In every row some element matches, so the number of those that do not is never the result.
    none = _B.constant(_FAR[spelling_of(places)], spelling_of(places))
    return extreme, _B.reduce("amin", _B.where(found, places, none), [dim])


def _part_of(size: Number) -> int | None:
    """The length of the parts in which a row of `size` elements is searched; None where it is searched as a whole."""
    if isinstance(size, Size) or size < 2 * _PART:
        return None
    part = max(d for d in range(1, _PART + 1) if size % d == 0)
    return part if part * 8 >= _PART else None


def _position_type(size: Number) -> str:
    """The type in which positions below a size are compared: i32 where it suffices, as a vector holds more of them."""
    return "i32" if isinstance(size, int) and size < 1 << 31 else "i64"
