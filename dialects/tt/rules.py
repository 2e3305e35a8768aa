"""What the verifier checks of the tt ops, beyond the attributes that each row of `ops` names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import VERIFIERS
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.types import (
    block_problem,
    block_type,
    element_of,
    is_block,
    is_pointer,
    loaded_type,
    shape_of,
)

#: What is wrong with an op, or None.
Rule: TypeAlias = Callable[[ir.Operation], str | None]

#: Blocks that one reduction or scan can take. Triton has no limit; more than this is a mistake.
MOST_REDUCED = 64


def rule(row: OpenOp, operands: int | tuple[int, int], results: int | None = 1) -> Callable[[Rule], Rule]:
    """Registers what `row` must fulfil, once the numbers of operands and results are right (None: any number)."""
    fewest, most = operands if isinstance(operands, tuple) else (operands, operands)

    def register(check: Rule) -> Rule:
        def whole(op: ir.Operation) -> str | None:
            if not fewest <= len(op.operands) <= most:
                wanted = f"{fewest} to {most}" if fewest != most else fewest
                return f"takes {wanted} operands, not {len(op.operands)}"
            if results not in (None, len(op.results)):
                return f"has {results} results, not {len(op.results)}"
            with op.location:  # types that the check makes for comparison belong to the op's context
                return _types_problem(op) or check(op)

        VERIFIERS[row.name] = whole
        return check

    return register


def _types_problem(op: ir.Operation) -> str | None:
    values = [*op.operands, *op.results]
    return next((wrong for wrong in map(block_problem, values) if wrong), None)


def _integer(op: ir.Operation, name: str) -> int:
    return ir.IntegerAttr(op.attributes[name]).value


def _wants(op: ir.Operation, kind: ir.Type) -> str | None:
    """The result must be of type `kind`."""
    return None if op.result.type == kind else f"gives {kind}, not {op.result.type}"


def _is_float(x: ir.Value) -> bool:
    return isinstance(element_of(x), ir.FloatType)


def _is_integer(x: ir.Value) -> bool:
    return isinstance(element_of(x), ir.IntegerType)


def _axis_problem(op: ir.Operation, rank: int) -> str | None:
    axis = _integer(op, "axis")
    return None if 0 <= axis < rank else f"axis {axis} is not within 0..{rank - 1}"


# -- the kernel ------------------------------------------------------------------------------------------------
@rule(ops.FUNC, 0, 0)
def _func(op: ir.Operation) -> str | None:
    kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    block = op.regions[0].blocks[0] if len(op.regions) == 1 and len(op.regions[0].blocks) == 1 else None
    if block is None:
        return "has one region of one block"
    if kind.results:
        return "returns nothing: results are stored"
    if [a.type for a in block.arguments] != list(kind.inputs):
        return f"has a block of arguments {[str(a.type) for a in block.arguments]} and the type {kind}"
    if len(op.attributes["arg_attrs"]) != len(kind.inputs):
        return f"has {len(kind.inputs)} arguments and attributes for {len(op.attributes['arg_attrs'])}"
    if "cuesta.grid" in op.attributes:
        grid = [ir.IntegerAttr(n).value for n in op.attributes["cuesta.grid"]]
        if len(grid) != 3 or min(grid) < 1:
            return f"cuesta.grid {grid} is not the number of programs along x, y and z"
    wrong = next((w for w in map(block_problem, kind.inputs) if w), None)
    if wrong:
        return wrong
    last = list(block.operations)[-1:]
    return None if last and last[0].operation.name == ops.RETURN.name else "must end in tt.return"


@rule(ops.RETURN, 0, 0)
def _return(op: ir.Operation) -> str | None:
    return None if op.parent.name == ops.FUNC.name else f"ends a tt.func, not a {op.parent.name}"


def _program(op: ir.Operation) -> str | None:
    return _axis_problem(op, 3) or _wants(op, ir.IntegerType.get_signless(32))


rule(ops.GET_PROGRAM_ID, 0)(_program)
rule(ops.GET_NUM_PROGRAMS, 0)(_program)


# -- shapes ----------------------------------------------------------------------------------------------------
@rule(ops.MAKE_RANGE, 0)
def _make_range(op: ir.Operation) -> str | None:
    start, end = _integer(op, "start"), _integer(op, "end")
    if start >= end:
        return f"from {start} to {end} is empty"
    return _wants(op, block_type((end - start,), ir.IntegerType.get_signless(32)))


@rule(ops.SPLAT, 1)
def _splat(op: ir.Operation) -> str | None:
    if is_block(op.operands[0]):
        return f"copies a scalar, not {op.operands[0].type}"
    if not is_block(op.result):
        return f"makes a block, not {op.result.type}"
    return _wants(op, block_type(shape_of(op.result), op.operands[0].type))


@rule(ops.UNSPLAT, 1)
def _unsplat(op: ir.Operation) -> str | None:
    if not is_block(op.operands[0]) or prod(shape_of(op.operands[0])) != 1:
        return f"takes a block of one element, not {op.operands[0].type}"
    return _wants(op, element_of(op.operands[0]))


@rule(ops.EXPAND_DIMS, 1)
def _expand_dims(op: ir.Operation) -> str | None:
    if not is_block(op.operands[0]):
        return f"takes a block, not {op.operands[0].type}"
    shape = list(shape_of(op.operands[0]))
    wrong = _axis_problem(op, len(shape) + 1)
    shape.insert(_integer(op, "axis"), 1)
    return wrong or _wants(op, block_type(shape, element_of(op.operands[0])))


@rule(ops.BROADCAST, 1)
def _broadcast(op: ir.Operation) -> str | None:
    (x,) = op.operands
    old, new = shape_of(x), shape_of(op.result)
    if len(old) != len(new) or not old:
        return f"keeps the number of dims, but goes from {list(old)} to {list(new)}"
    for dim, (size, wanted) in enumerate(zip(old, new, strict=True)):
        if size not in (1, wanted):
            return f"only stretches dims of size 1, but dim {dim} goes from {size} to {wanted}"
    return _wants(op, block_type(new, element_of(x)))


@rule(ops.RESHAPE, 1)
def _reshape(op: ir.Operation) -> str | None:
    old, new = shape_of(op.operands[0]), shape_of(op.result)
    if not old or not new or prod(old) != prod(new):
        return f"cannot reshape {list(old)} ({prod(old)} elements) to {list(new)} ({prod(new)})"
    return _wants(op, block_type(new, element_of(op.operands[0])))


@rule(ops.TRANS, 1)
def _trans(op: ir.Operation) -> str | None:
    shape, order = shape_of(op.operands[0]), list(op.attributes["order"])
    if sorted(order) != list(range(len(shape))):
        return f"order {order} is no permutation of 0..{len(shape) - 1}"
    return _wants(op, block_type([shape[d] for d in order], element_of(op.operands[0])))


@rule(ops.CAT, 2)
def _cat(op: ir.Operation) -> str | None:
    a, b = op.operands
    if a.type != b.type or len(shape_of(a)) != 1:
        return f"takes two blocks of one dim and one type, not {a.type} and {b.type}"
    return _wants(op, block_type((2 * shape_of(a)[0],), element_of(a)))


@rule(ops.JOIN, 2)
def _join(op: ir.Operation) -> str | None:
    a, b = op.operands
    if a.type != b.type:
        return f"takes two values of one type, not {a.type} and {b.type}"
    return _wants(op, block_type([*shape_of(a), 2], element_of(a)))


@rule(ops.SPLIT, 1, 2)
def _split(op: ir.Operation) -> str | None:
    shape = shape_of(op.operands[0])
    if not shape or shape[-1] != 2:
        return f"takes a block whose last dim is 2, not {op.operands[0].type}"
    kind = block_type(shape[:-1], element_of(op.operands[0]))
    return None if all(r.type == kind for r in op.results) else f"gives {kind} twice, not {op.results[0].type}"


# -- memory ----------------------------------------------------------------------------------------------------
@rule(ops.ADDPTR, 2)
def _addptr(op: ir.Operation) -> str | None:
    pointer, offset = op.operands
    if not is_pointer(pointer):
        return f"moves pointers, not {pointer.type}"
    if not _is_integer(offset) or shape_of(offset) != shape_of(pointer):
        return f"moves {pointer.type} by integers of the shape {list(shape_of(pointer))}, not by {offset.type}"
    return _wants(op, pointer.type)


def _pointer_problem(pointer: ir.Value) -> str | None:
    return None if is_pointer(pointer) else f"goes through pointers, not {pointer.type}"


def _mask_problem(pointer: ir.Value, mask: ir.Value | None) -> str | None:
    if mask is None:
        return None
    kind = block_type(shape_of(pointer), ir.IntegerType.get_signless(1))
    return None if mask.type == kind else f"takes a mask of type {kind}, not {mask.type}"


def _code_problem(op: ir.Operation, name: str, codes: dict[str, int]) -> str | None:
    code = _integer(op, name)
    known = ", ".join(f"{n} ({word})" for word, n in codes.items())
    return None if code in codes.values() else f"attribute {name!r} is {code}; it is one of {known}"


@rule(ops.LOAD, (1, 3))
def _load(op: ir.Operation) -> str | None:
    pointer = op.operands[0]
    sizes = list(op.attributes["operandSegmentSizes"])
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
        or _code_problem(op, "cache", ops.CACHE)
        or _code_problem(op, "evict", ops.EVICT)
        or _wants(op, kind)
    )


@rule(ops.STORE, (2, 3), 0)
def _store(op: ir.Operation) -> str | None:
    pointer, value = op.operands[0], op.operands[1]
    wrong = _pointer_problem(pointer)
    if wrong:
        return wrong
    if value.type != loaded_type(pointer):
        return f"stores {loaded_type(pointer)} through {pointer.type}, not {value.type}"
    return (
        _mask_problem(pointer, op.operands[2] if len(op.operands) == 3 else None)
        or _code_problem(op, "cache", ops.CACHE)
        or _code_problem(op, "evict", ops.EVICT)
    )


@rule(ops.ATOMIC_RMW, (2, 3))
def _atomic_rmw(op: ir.Operation) -> str | None:
    pointer, value = op.operands[0], op.operands[1]
    wrong = _pointer_problem(pointer)
    if wrong:
        return wrong
    if value.type != loaded_type(pointer):
        return f"combines {loaded_type(pointer)} through {pointer.type}, not {value.type}"
    wrong = (
        _mask_problem(pointer, op.operands[2] if len(op.operands) == 3 else None)
        or _code_problem(op, "atomic_rmw_op", ops.ATOMIC)
        or _code_problem(op, "sem", ops.SEM)
        or _code_problem(op, "scope", ops.SCOPE)
    )
    if wrong:
        return wrong
    kind = _integer(op, "atomic_rmw_op")
    if kind != ops.ATOMIC["exch"] and _is_float(value) != (kind == ops.ATOMIC["fadd"]):
        return f"combines {'floats by fadd or exch' if _is_float(value) else 'no integers by fadd'}"
    return _wants(op, value.type)


# -- regions ---------------------------------------------------------------------------------------------------
def _combiner_problem(op: ir.Operation, end: OpenOp) -> str | None:
    """Blocks of one shape, and a region over two sets of their elements."""
    shapes = {shape_of(x) for x in op.operands}
    if len(shapes) != 1 or () in shapes:
        return f"takes blocks of one shape, not {', '.join(str(x.type) for x in op.operands)}"
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return "has one region of one block"
    scalars = [element_of(x) for x in op.operands]
    block = op.regions[0].blocks[0]
    if [a.type for a in block.arguments] != scalars * 2:
        return f"combines {_spell(scalars * 2)}, not {_spell([a.type for a in block.arguments])}"
    last = list(block.operations)[-1].operation
    if last.name != end.name:
        return f"has a region that ends in {last.name}, not {end.name}"
    if [x.type for x in last.operands] != scalars:
        return f"combines to {_spell([x.type for x in last.operands])}, not {_spell(scalars)}"
    return _axis_problem(op, len(shape_of(op.operands[0])))


def _spell(kinds: Sequence[ir.Type]) -> str:
    return f"({', '.join(map(str, kinds))})"


@rule(ops.REDUCE, (1, MOST_REDUCED), None)
def _reduce(op: ir.Operation) -> str | None:
    wrong = _combiner_problem(op, ops.REDUCE_RETURN)
    if wrong:
        return wrong
    shape = list(shape_of(op.operands[0]))
    del shape[_integer(op, "axis")]
    kinds = [block_type(shape, element_of(x)) for x in op.operands]
    given = [r.type for r in op.results]
    return None if given == kinds else f"gives {_spell(kinds)}, not {_spell(given)}"


@rule(ops.SCAN, (1, MOST_REDUCED), None)
def _scan(op: ir.Operation) -> str | None:
    wrong = _combiner_problem(op, ops.SCAN_RETURN)
    if wrong:
        return wrong
    kinds, given = [x.type for x in op.operands], [r.type for r in op.results]
    return None if given == kinds else f"gives {_spell(kinds)}, not {_spell(given)}"


# -- arithmetic ------------------------------------------------------------------------------------------------
@rule(ops.EXTERN_ELEMENTWISE, (1, 4))
def _extern_elementwise(op: ir.Operation) -> str | None:
    shapes = {shape_of(x) for x in op.operands}
    if shapes != {shape_of(op.result)}:
        return f"keeps the shape, but takes {_spell([x.type for x in op.operands])} to {op.result.type}"
    return None


def _same_floats(op: ir.Operation) -> str | None:
    x = op.operands[0]
    if str(element_of(x)) != "f32" or any(y.type != x.type for y in op.operands):
        return f"takes f32 of one shape, not {_spell([y.type for y in op.operands])}"
    return _wants(op, x.type)


rule(ops.PRECISE_SQRT, 1)(_same_floats)
rule(ops.PRECISE_DIVF, 2)(_same_floats)


@rule(ops.MULHIUI, 2)
def _mulhiui(op: ir.Operation) -> str | None:
    x, y = op.operands
    if str(element_of(x)) not in ("i32", "i64") or x.type != y.type:
        return f"takes i32 or i64 of one shape, not {x.type} and {y.type}"
    return _wants(op, x.type)


@rule(ops.BITCAST, 1)
def _bitcast(op: ir.Operation) -> str | None:
    (x,) = op.operands
    if is_pointer(x) or is_pointer(op.result):
        wrong = is_pointer(x) != is_pointer(op.result)
    else:
        wrong = element_of(x).width != element_of(op.result).width
    if wrong or shape_of(x) != shape_of(op.result):
        return f"keeps shape and width, but goes from {x.type} to {op.result.type}"
    return None


@rule(ops.DOT, 3)
def _dot(op: ir.Operation) -> str | None:
    a, b, c = op.operands
    left, right, out = shape_of(a), shape_of(b), shape_of(c)
    if len(left) not in (2, 3) or len(right) != len(left) or left[:-2] != right[:-2] or left[-1] != right[-2]:
        return f"cannot multiply {a.type} by {b.type}"
    if out != (*left[:-1], right[-1]):
        return f"adds to {[*left[:-1], right[-1]]}, not {list(out)}"
    if element_of(a) != element_of(b):
        return f"multiplies elements of one type, not {element_of(a)} and {element_of(b)}"
    return _code_problem(op, "inputPrecision", ops.PRECISION) or _wants(op, c.type)
