"""Defines `kernel.scatter`, a write at computed positions inside a kernel. No linalg op expresses it.

    %r = "kernel.scatter"(%value, %index, %x) {indexing_maps = [(i, j) -> (i, j), (i, j) -> (i)],
                                               walks = [-1, 1], combine = "add", element = "f32"}

computes x[index[i], j] += value[i, j] over loops i and j. `indexing_maps` has a map for each operand but the last; the
first map is one-to-one. `walks` has an entry for each dim of x: the loop that walks it, or -1 - k if operand 1 + k
holds the position. `element` is x's element type in the cuesta dialect. With `wraps`, a negative index counts from the
end. Without `in_range`, an index outside x is clamped.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from cuesta._mlir import arith, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import VERIFIERS
from cuesta.dialects.cuesta.scatter import COMBINE
from cuesta.dialects.fields import OPTIONAL, Ints, Maps, Marker, Text
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.scalar import load_storage, scalar_for, to_storage

Value: TypeAlias = ir.Value


class KernelScatter(OpenOp, name="kernel.scatter"):
    """A write at computed positions."""

    indexing_maps: Maps
    walks: Ints
    combine: Text
    element: Text
    wraps: Annotated[Marker, OPTIONAL]
    in_range: Annotated[Marker, OPTIONAL]


_MEANING = tuple(KernelScatter.FIELDS[name] for name in ("combine", "element", "wraps", "in_range"))

#: The atomics of GPUs: (combine, element) → the tt dialect's name of the atomic. ATen adds 16-bit floats in f32. There
#: are none for products, nor for minima and maxima of floats.
_ATOMIC = {
    **{("add", spelling): "fadd" for spelling in ("f32", "f64")},
    **{("add", spelling): "add" for spelling in ("i32", "i64")},
    **{(name, spelling): name for name in ("max", "min") for spelling in ("i32", "i64")},
}


def atomic_of(combine: str, spelling: str) -> str | None:
    """The name of the atomic op for `combine`; None if there is none (or none is needed: "set")."""
    return _ATOMIC.get((combine, spelling))


def is_scatter(op: ir.Operation) -> bool:
    """Whether an op is a `kernel.scatter`."""
    return KernelScatter.matches(op)


def meaning_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes that define what a scatter computes, in the graph as in a kernel."""
    return {field.name: op.attributes[field.name] for field in _MEANING if field.is_on(op)}


def combined(op: ir.Operation, current: Value, value: Value) -> Value:
    """The value that a scatter stores in place of `current`; operands and result are in their storage type."""
    spelling, name = KernelScatter.element.of(op), KernelScatter.combine.of(op)
    if name == "set":
        return value
    s, kind = scalar_for(spelling), types.element(types.opmath(spelling))
    a, b = (load_storage(v, spelling) for v in (current, value))
    if types.opmath(spelling) != spelling:
        a, b = s.convert(a, kind), s.convert(b, kind)
    result = {"add": s.add, "mul": s.mul, "max": s.maximum, "min": s.minimum}[name](a, b)
    return to_storage(s.convert(result, types.element(spelling)) if types.is_float(spelling) else result, spelling)


def position(op: ir.Operation, index: Value, size: Value) -> Value:
    """An index of a scatter as a position in [0, size), of type index; clamps an index that may be outside."""
    place = arith.index_cast(ir.IndexType.get(), index)
    zero, one = (arith.constant(ir.IndexType.get(), n) for n in (0, 1))
    if KernelScatter.wraps.is_on(op):
        below = arith.cmpi(arith.CmpIPredicate.slt, place, zero)
        place = arith.select(below, arith.addi(place, size), place)
    if KernelScatter.in_range.is_on(op):
        return place
    return arith.maxsi(arith.minsi(place, arith.subi(size, one)), zero)


def _problem(op: ir.Operation) -> str | None:
    walks, maps = KernelScatter.walks.of(op), KernelScatter.indexing_maps.of(op)
    if len(op.operands) < 3 or len(maps) != len(op.operands) - 1 or len(op.results) != 1:
        return "takes a value, indices and a tensor, has a map for each operand but the tensor, and has one result"
    loops = maps[0].n_dims
    if sorted(w for w in walks if w < 0) != list(range(2 - len(op.operands), 0)) or max(walks) >= loops:
        return f"walks {walks} must name each index once, and loops below {loops}"
    if len(walks) != ir.RankedTensorType(op.operands[-1].type).rank:
        return f"walks {walks} must name each dim of the tensor that is written"
    if KernelScatter.combine.of(op) not in COMBINE:
        return f"combine is one of {', '.join(COMBINE)}"
    return None if op.results[0].type == op.operands[-1].type else "the result must have the type of what is written"


VERIFIERS[KernelScatter.OPERATION_NAME] = _problem
