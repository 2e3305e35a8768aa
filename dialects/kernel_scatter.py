"""`kernel.scatter`, a write at computed positions inside a kernel: what no linalg op expresses.

    %r = "kernel.scatter"(%value, %index, %x) {indexing_maps = [(i, j) -> (i, j), (i, j) -> (i)],
                                               walks = [-1, 1], combine = "add", element = "f32"}

over loops i and j: x[index[i], j] += value[i, j]. `indexing_maps` has a map for each operand but the last, the first of
them one-to-one; `walks` says of each dim of x which loop walks it, or -1 - k: its place is in operand 1 + k. `element`
spells x's element as the cuesta dialect does. `wraps` says that a negative index counts from the end;
where `in_range` is not said, what is no place in x is clamped to one.
"""

from __future__ import annotations

from typing import TypeAlias

from cuesta._mlir import arith, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import VERIFIERS, ints
from cuesta.dialects.cuesta.scatter import COMBINE
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.scalar import load_storage, scalar_for, to_storage

Value: TypeAlias = ir.Value

SCATTER = OpenOp(
    "kernel.scatter",
    {
        "indexing_maps": ir.ArrayAttr,
        "walks": ir.ArrayAttr,
        "combine": ir.StringAttr,
        "element": ir.StringAttr,
    },
)

#: The attributes that say what a scatter means, wherever it stands.
MEANING = ("combine", "element", "wraps", "in_range")

#: What a GPU does to memory in one step that nothing comes between: (combine, element) → the tt dialect's name for it.
#: Of 16-bit floats ATen adds up in f32; minima and maxima of floats and products have no such step.
_ATOMIC = {
    **{("add", spelling): "fadd" for spelling in ("f32", "f64")},
    **{("add", spelling): "add" for spelling in ("i32", "i64")},
    **{(name, spelling): name for name in ("max", "min") for spelling in ("i32", "i64")},
}


def atomic_of(combine: str, spelling: str) -> str | None:
    """The name of the atomic op that combines so, None where there is none (or none is needed, to set)."""
    return _ATOMIC.get((combine, spelling))


def is_scatter(op: ir.Operation) -> bool:
    """Whether an op is a `kernel.scatter`."""
    return op.name == SCATTER.name


def combined(op: ir.Operation, current: Value, value: Value) -> Value:
    """What a scatter leaves where `current` was, both in their storage type."""
    spelling, name = op.attributes["element"].value, op.attributes["combine"].value
    if name == "set":
        return value
    s, kind = scalar_for(spelling), types.element(types.opmath(spelling))
    a, b = (load_storage(v, spelling) for v in (current, value))
    if types.opmath(spelling) != spelling:
        a, b = s.convert(a, kind), s.convert(b, kind)
    result = {"add": s.add, "mul": s.mul, "max": s.maximum, "min": s.minimum}[name](a, b)
    return to_storage(s.convert(result, types.element(spelling)) if types.is_float(spelling) else result, spelling)


def position(op: ir.Operation, index: Value, size: Value) -> Value:
    """An index of a scatter as a place in [0, size), which is of type index; one that may lie outside is clamped."""
    place = arith.index_cast(ir.IndexType.get(), index)
    zero, one = (arith.constant(ir.IndexType.get(), n) for n in (0, 1))
    if "wraps" in op.attributes:
        below = arith.cmpi(arith.CmpIPredicate.slt, place, zero)
        place = arith.select(below, arith.addi(place, size), place)
    if "in_range" in op.attributes:
        return place
    return arith.maxsi(arith.minsi(place, arith.subi(size, one)), zero)


def _problem(op: ir.Operation) -> str | None:
    walks = ints(op.attributes["walks"])
    maps = [m.value for m in op.attributes["indexing_maps"]]
    if len(op.operands) < 3 or len(maps) != len(op.operands) - 1 or len(op.results) != 1:
        return "takes a value, indices and a tensor, has maps for all but the last, and one result"
    loops = maps[0].n_dims
    if sorted(w for w in walks if w < 0) != list(range(2 - len(op.operands), 0)) or max(walks) >= loops:
        return f"walks {walks} must name each index once, and loops below {loops}"
    if len(walks) != ir.RankedTensorType(op.operands[-1].type).rank:
        return f"walks {walks} must name each dim of the tensor that is written"
    if op.attributes["combine"].value not in COMBINE:
        return f"combine is one of {', '.join(COMBINE)}"
    return None if op.results[0].type == op.operands[-1].type else "the result must have the type of what is written"


VERIFIERS[SCATTER.name] = _problem
