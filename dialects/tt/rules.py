"""Verifies the tt ops, beyond the attributes that each class of `ops` names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta.dialect import VERIFIERS
from cuesta.dialects.kernel_fields import GRID
from cuesta.dialects.open_op import OpenOp
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.instructions import INSTRUCTIONS, OF_BYTES, OF_FLOATS, PRODUCT, WIDEN, ElementwiseInlineAsm
from cuesta.dialects.tt.types import block_problem, block_type, element_of, shape_of

#: What is wrong with an op, or None.
Rule: TypeAlias = Callable[[ir.Operation], str | None]

#: The most blocks that one reduction or scan may take. Triton has no limit; more than this is a mistake.
MOST_REDUCED = 64


# The upstream ops that a kernel may hold: those that Triton 3.6 lowers, for NVIDIA and for AMD. Triton's parser accepts
# every op of arith and math, but its lowering fails on the others with a message that names no line of ours, so the
# verifier refuses these. Found by compiling each op for cuda:90 and hip:gfx942.
_ARITH = """
    constant addi subi muli divsi divui remsi remui andi ori xori shli shrsi shrui minsi minui maxsi maxui
    addf subf mulf divf remf minimumf maximumf minnumf maxnumf cmpi cmpf select
    extf truncf extsi extui trunci sitofp uitofp fptosi fptoui index_cast
"""
_MATH = "absf absi ceil cos erf exp exp2 floor fma log log2 rsqrt sin sqrt"
_SCF = "for if while condition yield"

#: Full names, such as arith.addf.
LOWERED = frozenset(
    f"{dialect}.{op}" for dialect, names in (("arith", _ARITH), ("math", _MATH), ("scf", _SCF)) for op in names.split()
)

_INSTEAD = {
    "arith.negf": "subtract from -0.0",
    "arith.bitcast": "use tt.bitcast",
    "arith.floordivsi": "use arith.divsi and arith.remsi",
    "arith.ceildivsi": "use arith.divsi and arith.remsi",
    "math.isnan": "compare the value with itself",
    "math.isfinite": "compare the absolute value with infinity",
}


def rule(kind: type[OpenOp], operands: int | tuple[int, int], results: int | None = 1) -> Callable[[Rule], Rule]:
    """Registers a check of a kind of ops, to run if the numbers of operands and results are right (None: any)."""
    fewest, most = operands if isinstance(operands, tuple) else (operands, operands)

    def register(check: Rule) -> Rule:
        def whole(op: ir.Operation) -> str | None:
            count = len(op.operands)
            if not fewest <= count <= most:
                wanted = f"{fewest} to {most}" if fewest != most else fewest
                return f"takes {wanted} operands, not {count}"
            if results is not None and len(op.results) != results:
                return f"has {results} results, not {len(op.results)}"
            with op.location:  # types that the check makes for comparison belong to the op's context
                return _types_problem(op) or check(op)

        VERIFIERS[kind.OPERATION_NAME] = whole
        return check

    return register


def _types_problem(op: ir.Operation) -> str | None:
    for kind in dict.fromkeys(value.type for value in (*op.operands, *op.results)):
        wrong = block_problem(kind)
        if wrong:
            return wrong
    return None


def wants(op: ir.Operation, kind: ir.Type) -> str | None:
    """Checks that the result is of type `kind`."""
    return None if op.result.type == kind else f"gives {kind}, not {op.result.type}"


def spell(kinds: Sequence[ir.Type]) -> str:
    return f"({', '.join(map(str, kinds))})"


def axis_problem(axis: int, rank: int) -> str | None:
    return None if 0 <= axis < rank else f"axis {axis} is not within 0..{rank - 1}"


# -- the kernel ------------------------------------------------------------------------------------------------
@rule(ops.Func, 0, 0)
def _func(op: ir.Operation) -> str | None:
    kind, entries = ops.Func.function_type.of(op), ops.Func.arg_attrs.of(op)
    block = op.regions[0].blocks[0] if len(op.regions) == 1 and len(op.regions[0].blocks) == 1 else None
    if block is None:
        return "has one region of one block"
    if kind.results:
        return "returns nothing: results are stored"
    if [a.type for a in block.arguments] != list(kind.inputs):
        return f"has arguments {[str(a.type) for a in block.arguments]}, which its type {kind} does not state"
    if len(entries) != len(kind.inputs):
        return f"has {len(kind.inputs)} arguments and attributes for {len(entries)}"
    grid = GRID.find(op)
    if grid is not None and (len(grid) != 3 or any(isinstance(n, int) and n < 1 for n in grid)):
        return f"{GRID.name} must be three numbers of programs, along x, y and z, not {grid}"
    wrong = next((w for w in map(block_problem, kind.inputs) if w), None)
    if wrong:
        return wrong
    wrong = _foreign_op(block)
    if wrong:
        return wrong
    last = list(block.operations)[-1:]
    return None if last and ops.Return.matches(last[0].operation) else "must end in tt.return"


def _foreign_op(block: ir.Block) -> str | None:
    """The first op that Triton would refuse below `block`, with its location."""
    for op in block.operations:
        wrong = _upstream_problem(op.operation.name)
        if wrong:
            return f"holds an op at {op.location}: {wrong}"
        if len(op.operation.regions):  # most have none
            inner = (b for region in op.operation.regions for b in region.blocks)
            wrong = next((w for w in map(_foreign_op, inner) if w), None)
            if wrong:
                return wrong
    return None


@functools.cache
def _upstream_problem(name: str) -> str | None:
    """Why Triton does not lower the upstream op `name`, and what to use instead; or None."""
    if name in LOWERED or name.partition(".")[0] == "tt":
        return None
    return f"Triton does not lower {name}: {_INSTEAD.get(name, 'decompose it, or call tt.extern_elementwise')}"


@rule(ops.Return, 0, 0)
def _return(op: ir.Operation) -> str | None:
    return None if ops.Func.matches(op.parent) else f"ends a tt.func, not a {op.parent.name}"


@rule(ops.GetProgramId, 0)
def _program(op: ir.Operation) -> str | None:
    return axis_problem(ops.GetProgramId.axis.of(op), 3) or wants(op, ir.IntegerType.get_signless(32))


@rule(ElementwiseInlineAsm, (0, 2))
def _instruction(op: ir.Operation) -> str | None:
    text = ElementwiseInlineAsm.asm_string.of(op)
    if len(op.operands):
        known = {"i8": OF_BYTES, "bf16": {WIDEN: WIDEN}, "f32": OF_FLOATS}.get(str(element_of(op.operands[0])), {})
        if text not in known or not shape_of(op.operands[0]):
            return f"takes a block of bytes, bf16 or f32, and instructions that make f32 of them, not {text!r}"
        count = 2 if known[text] == PRODUCT else 1
        if len({x.type for x in op.operands}) > 1 or len(op.operands) != count:
            return f"{text!r} takes {count} of one type, not {', '.join(str(x.type) for x in op.operands)}"
        return wants(op, block_type(shape_of(op.operands[0]), "f32"))
    if text.partition(";")[0] not in INSTRUCTIONS:
        return f"holds {text!r}; the instructions are {', '.join(INSTRUCTIONS)}"
    return wants(op, ir.IntegerType.get_signless(32))


# -- regions ---------------------------------------------------------------------------------------------------
def _combiner_problem(op: ir.Operation, axis: int, end: type[OpenOp]) -> str | None:
    """Checks that an op has blocks of one shape, and a region over two sets of their elements."""
    shapes = {shape_of(x) for x in op.operands}
    if len(shapes) != 1 or () in shapes:
        return f"takes blocks of one shape, not {', '.join(str(x.type) for x in op.operands)}"
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        return "has one region of one block"
    scalars = [element_of(x) for x in op.operands]
    block = op.regions[0].blocks[0]
    if [a.type for a in block.arguments] != scalars * 2:
        return f"combines {spell(scalars * 2)}, not {spell([a.type for a in block.arguments])}"
    last = list(block.operations)[-1].operation
    if not end.matches(last):
        return f"has a region that ends in {last.name}, not {end.OPERATION_NAME}"
    if [x.type for x in last.operands] != scalars:
        return f"combines to {spell([x.type for x in last.operands])}, not {spell(scalars)}"
    return axis_problem(axis, len(shape_of(op.operands[0])))


def _results_problem(op: ir.Operation, kinds: Sequence[ir.Type]) -> str | None:
    given = [r.type for r in op.results]
    return None if given == list(kinds) else f"gives {spell(kinds)}, not {spell(given)}"


@rule(ops.Reduce, (1, MOST_REDUCED), None)
def _reduce(op: ir.Operation) -> str | None:
    axis = ops.Reduce.axis.of(op)
    wrong = _combiner_problem(op, axis, ops.ReduceReturn)
    if wrong:
        return wrong
    shape = list(shape_of(op.operands[0]))
    del shape[axis]
    return _results_problem(op, [block_type(shape, element_of(x)) for x in op.operands])


@rule(ops.Scan, (1, MOST_REDUCED), None)
def _scan(op: ir.Operation) -> str | None:
    wrong = _combiner_problem(op, ops.Scan.axis.of(op), ops.ScanReturn)
    return wrong or _results_problem(op, [x.type for x in op.operands])
