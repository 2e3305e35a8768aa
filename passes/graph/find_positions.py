"""Finds the extreme of a row first and then where it stands, so that both fill vectors.

%1 = cuesta.argmax(%0) {dim = 1}   →   %m = cuesta.amax(%0) {dims = [1]}
                                       %p = cuesta.where(%0 == %m or %0 is NaN, 0 1 2 …, the row's length)
                                       %1 = cuesta.amin(%p) {dims = [1]}

A loop that carries the best float and its position waits at every element for the element before. Of integers LLVM
makes lanes that carry their own; so it does of rows that are not contiguous, each in a lane. Both stay as they are.

A row that is longer than L1 is found in parts, each of which is read from there the second time, and among these the
first whose extreme is the row's.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import is_float, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.graph.split_reductions import in_parts
from cuesta.passes.infra.graph_rewrite import Rule, functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, Size

Value: TypeAlias = ir.Value
_B = GraphBuilder()

#: Op → the extreme that it is the position of.
_EXTREMES = {"cuesta.argmax": "amax", "cuesta.argmin": "amin"}
#: Elements of a part of a long row, at most: as f32 they fill half of L1.
_PART = 4096
#: More than any position of the type.
_FAR = {"i32": (1 << 31) - 1, "i64": (1 << 63) - 1}


@register_pass("find-positions")
class FindPositions(Pass):
    """Makes argmax and argmin along contiguous rows of floats two reductions: the extreme, and its first position."""

    def run(self, module: ir.Module) -> None:
        memory = MemoryOrder()
        # Which rows are contiguous is asked before anything is rewritten: MemoryOrder goes by values.
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
    """Whether the elements that an op compares lie beside each other."""
    sizes = shape_of(op.operands[0])
    order = [d for d in memory.order(op.operands[0]) if sizes[d] != 1]
    return bool(order) and order[-1] == op.attributes["dim"].value


def _find(op: ir.Operation, rows: set[ir.Operation]) -> Sequence[Value] | None:
    if op not in rows:
        return None
    (x,), dim = op.operands, op.attributes["dim"].value
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


def _first(name: str, x: Value, dim: int, places: Value) -> tuple[Value, Value]:
    """The extreme of each row along `dim`, and the least of the `places` of the elements that are it."""
    sizes = shape_of(x)
    # Without the dim, as a maximum with its positions asks for it: the two are one then.
    extreme = _B.reduce(name, x, [dim])
    beside = _B.reshape(extreme, [1 if d == dim else size for d, size in enumerate(sizes)])
    # Where there is a NaN the extreme is one, and equals nothing.
    found = _B.pointwise("logical_or", _B.pointwise("eq", x, beside), _B.pointwise("ne", x, x))
    # Some element is found in every row: what the others have is never the result.
    none = _B.constant(_FAR[spelling_of(places)], spelling_of(places))
    return extreme, _B.reduce("amin", _B.where(found, places, none), [dim])


def _part_of(size: Number) -> int | None:
    """How long the parts are that a row of so many elements is found in; None where it is found as a whole."""
    if isinstance(size, Size) or size < 2 * _PART:
        return None
    part = max(d for d in range(1, _PART + 1) if size % d == 0)
    return part if part * 8 >= _PART else None


def _position_type(size: Number) -> str:
    """The type that positions below a size are compared in: a vector has more of the narrower."""
    return "i32" if isinstance(size, int) and size < 1 << 31 else "i64"
