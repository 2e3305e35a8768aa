"""Verifies the tt ops on memory, and arithmetic."""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.rules import rule, spell, wants
from cuesta.dialects.tt.types import block_type, element_of, is_pointer, loaded_type, shape_of


# -- memory ----------------------------------------------------------------------------------------------------
def _is_float(x: ir.Value) -> bool:
    return isinstance(element_of(x), ir.FloatType)


@rule(ops.AddPtr, 2)
def _addptr(op: ir.Operation) -> str | None:
    pointer, offset = op.operands
    if not is_pointer(pointer):
        return f"moves pointers, not {pointer.type}"
    if not isinstance(element_of(offset), ir.IntegerType) or shape_of(offset) != shape_of(pointer):
        return f"moves {pointer.type} by integers of the shape {list(shape_of(pointer))}, not by {offset.type}"
    return wants(op, pointer.type)


def _pointer_problem(pointer: ir.Value) -> str | None:
    return None if is_pointer(pointer) else f"goes through pointers, not {pointer.type}"


def _mask_problem(pointer: ir.Value, mask: ir.Value | None) -> str | None:
    if mask is None:
        return None
    kind = block_type(shape_of(pointer), ir.IntegerType.get_signless(1))
    return None if mask.type == kind else f"takes a mask of type {kind}, not {mask.type}"


def _write_problem(op: ir.Operation, writes: str) -> str | None:
    """Checks an op that writes a value through a pointer, perhaps under a mask."""
    pointer, value, *mask = op.operands
    wrong = _pointer_problem(pointer)
    if wrong is None and value.type != loaded_type(pointer):
        wrong = f"{writes} {loaded_type(pointer)} through {pointer.type}, not {value.type}"
    return wrong or _mask_problem(pointer, mask[0] if mask else None)


@rule(ops.Load, (1, 3))
def _load(op: ir.Operation) -> str | None:
    pointer = op.operands[0]
    sizes = ops.Load.operandSegmentSizes.of(op)
    if len(sizes) != 3 or sizes[0] != 1 or max(sizes) > 1 or sum(sizes) != len(op.operands):
        return f"operandSegmentSizes {sizes} do not split {len(op.operands)} operands into pointer, mask and other"
    if sizes[2] and not sizes[1]:
        return "has a value for where the mask is false, but no mask"
    wrong = _pointer_problem(pointer)
    if wrong:
        return wrong
    kind = loaded_type(pointer)
    if sizes[2] and op.operands[2].type != kind:
        return f"takes {kind} for where the mask is false, not {op.operands[2].type}"
    return (
        _mask_problem(pointer, op.operands[1] if sizes[1] else None)
        or ops.Load.cache.problem(op)
        or ops.Load.evict.problem(op)
        or wants(op, kind)
    )


@rule(ops.Store, (2, 3), 0)
def _store(op: ir.Operation) -> str | None:
    return _write_problem(op, "stores") or ops.Store.cache.problem(op) or ops.Store.evict.problem(op)


@rule(ops.AtomicRMW, (2, 3))
def _atomic_rmw(op: ir.Operation) -> str | None:
    wrong = (
        _write_problem(op, "combines")
        or ops.AtomicRMW.atomic_rmw_op.problem(op)
        or ops.AtomicRMW.sem.problem(op)
        or ops.AtomicRMW.scope.problem(op)
    )
    if wrong:
        return wrong
    value = op.operands[1]
    kind = ops.AtomicRMW.atomic_rmw_op.of(op)
    if kind != "exch" and _is_float(value) != (kind == "fadd"):
        return f"combines {'floats by fadd or exch' if _is_float(value) else 'no integers by fadd'}"
    return wants(op, value.type)


# -- arithmetic ------------------------------------------------------------------------------------------------
@rule(ops.ExternElementwise, (1, 4))
def _extern_elementwise(op: ir.Operation) -> str | None:
    shapes = {shape_of(x) for x in op.operands}
    if shapes != {shape_of(op.result)}:
        return f"keeps the shape, but takes {spell([x.type for x in op.operands])} to {op.result.type}"
    return None


def _same_floats(op: ir.Operation) -> str | None:
    x = op.operands[0]
    if str(element_of(x)) != "f32" or any(y.type != x.type for y in op.operands):
        return f"takes f32 of one shape, not {spell([y.type for y in op.operands])}"
    return wants(op, x.type)


rule(ops.PreciseSqrt, 1)(_same_floats)
rule(ops.PreciseDivF, 2)(_same_floats)


@rule(ops.Bitcast, 1)
def _bitcast(op: ir.Operation) -> str | None:
    (x,) = op.operands
    if is_pointer(x) or is_pointer(op.result):
        wrong = is_pointer(x) != is_pointer(op.result)
    else:
        wrong = element_of(x).width != element_of(op.result).width
    if wrong or shape_of(x) != shape_of(op.result):
        return f"keeps shape and width, but goes from {x.type} to {op.result.type}"
    return None


@rule(ops.Dot, 3)
def _dot(op: ir.Operation) -> str | None:
    a, b, c = op.operands
    left, right, out = shape_of(a), shape_of(b), shape_of(c)
    if len(left) not in (2, 3) or len(right) != len(left) or left[:-2] != right[:-2] or left[-1] != right[-2]:
        return f"cannot multiply {a.type} by {b.type}"
    if out != (*left[:-1], right[-1]):
        return f"adds to {[*left[:-1], right[-1]]}, not {list(out)}"
    if element_of(a) != element_of(b):
        return f"multiplies elements of one type, not {element_of(a)} and {element_of(b)}"
    return ops.Dot.inputPrecision.problem(op) or wants(op, c.type)
