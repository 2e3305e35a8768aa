"""Builds loops around vectors of f32, with constant or symbolic bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from cuesta._mlir import arith, ir, memref, scf, vector
from cuesta.dialects.kernel_module import LOOP_ANNOTATION
from cuesta.dialects.types import index_value

Value: TypeAlias = ir.Value
#: A size or a bound of a loop: a constant, or an index value.
Extent: TypeAlias = int | ir.Value

#: f32 elements of a vector.
LANES = 16
#: Bytes of a cache line, and between what a loop reads from memory and what it asks for.
LINE, AHEAD = 64, 8192


def scratch(sizes: Sequence[int], element: ir.Type | None = None) -> Value:
    """Scratch memory on the stack, of f32 if no element type is given, aligned to a cache line."""
    kind = ir.MemRefType.get(list(sizes), element or ir.F32Type.get())
    return memref.AllocaOp(kind, [], [], alignment=LINE).result


def widened(x: Value) -> Value:
    """A float, or a vector of them, as f32."""
    kind, f32 = x.type, ir.F32Type.get()
    if isinstance(kind, ir.VectorType):
        return x if kind.element_type == f32 else arith.extf(ir.VectorType.get(kind.shape, f32), x)
    return x if kind == f32 else arith.extf(f32, x)


def value_of(extent: Extent) -> Value:
    return index_value(extent) if isinstance(extent, int) else extent


def whole_blocks(size: Extent, step: int) -> Extent:
    """`size`, rounded down to a multiple of `step`."""
    if isinstance(size, int):
        return size // step * step
    return arith.subi(size, arith.remui(size, index_value(step)))


def equal_blocks(size: Value, most: int, multiple: int, body: Callable[[Value, Value, bool], object]) -> None:
    """Splits `size` into as few blocks as possible, of about equal sizes up to `most`. All block sizes except the last
    are multiples of `multiple`. `body(start, count, is_first)` is called for the peeled first block and in a loop."""

    def up(n: Value, step: Value) -> Value:
        return arith.divui(arith.addi(n, arith.subi(step, index_value(1))), step)

    count = up(size, index_value(most))
    lanes = index_value(multiple)
    step = arith.muli(up(up(size, count), lanes), lanes)
    body(index_value(0), arith.minui(step, size), True)
    made = scf.ForOp(step, size, step)
    with ir.InsertionPoint(made.body):
        start = made.induction_variable
        body(start, arith.minui(step, arith.subi(size, start)), False)
        scf.YieldOp([])


def blocks(size: Extent, step: int, body: Callable[[Value, int, Value | None], object]) -> None:
    """A loop over full blocks, `body(start, step, None)`, followed by the remainder: `body(start, count, None)` if the
    size is constant, else `body(start, step, count)`, where `count` is less than `step`."""
    if isinstance(size, int):
        whole = size // step * step
        loop(0, whole, step, lambda at: body(at, step, None))
        if whole < size:
            body(index_value(whole), size - whole, None)
        return
    end = whole_blocks(size, step)
    loop(0, end, step, lambda at: body(at, step, None))
    loop(end, size, step, lambda at: body(at, step, arith.subi(size, at)))


def loop(first: Extent, end: Extent, step: int, body: Callable[..., Any], carried: Sequence[Value] = ()) -> list[Value]:
    """A loop that calls `body(index, *carried)`, and carries the values that `body` returns, if any. With constant
    bounds, a loop without iterations is left out, and a single iteration is written without a loop."""
    if isinstance(first, int) and isinstance(end, int):
        if first >= end:
            return list(carried)
        if first + step >= end:
            found = body(index_value(first), *carried)
            return list(found) if carried else []
    made = scf.ForOp(value_of(first), value_of(end), index_value(step), list(carried))
    with ir.InsertionPoint(made.body):
        found = body(made.induction_variable, *made.inner_iter_args)
        scf.YieldOp(list(found) if carried else [])
    return list(made.results)


def keep_whole(results: Sequence[Value]) -> None:
    """Keeps LLVM from unrolling the loop that has these results, if it is one. An unrolled loop asks for several cache
    lines at once, and waits: products of four rows took 1.2 of the time."""
    if isinstance(results[0].owner.opview, scf.ForOp):
        results[0].owner.attributes[LOOP_ANNOTATION] = ir.Attribute.parse(
            "#llvm.loop_annotation<unroll = <disable = true>>"
        )


def where(
    condition: Value | None,
    body: Callable[[], Any],
    otherwise: Callable[[], Any] | None = None,
    carried: Sequence[Value] = (),
) -> list[Value]:
    """Runs `body` if a condition holds, and else `otherwise`, if given. The condition None always holds. With `carried`
    values, each returns new ones; where neither runs, the values stay as they are."""
    if condition is None:
        found = body()
        return list(found) if carried else []
    otherwise = otherwise or ((lambda: carried) if carried else None)
    made = scf.IfOp(condition, [x.type for x in carried], has_else=otherwise is not None)
    for block, inside in ((made.then_block, body), *(((made.else_block, otherwise),) if otherwise else ())):
        with ir.InsertionPoint(block):
            found = inside()
            scf.YieldOp(list(found) if carried else [])
    return list(made.results)


def vector_type(element: ir.Type | None = None) -> ir.Type:
    """The type of a vector of LANES floats, f32 by default."""
    return ir.VectorType.get([LANES], element or ir.F32Type.get())


def zeros(kind: ir.Type | None = None) -> Value:
    """A vector of zeros."""
    kind = kind or vector_type()
    zero = ir.FloatAttr.get(ir.VectorType(kind).element_type, 0.0)
    return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, zero)).result


def first_lanes(count: Extent) -> Value:
    """The mask of the first `count` lanes; of all lanes if `count` exceeds LANES."""
    kind = ir.VectorType.get([LANES], ir.IntegerType.get_signless(1))
    if isinstance(count, int):
        return vector.constant_mask(kind, [count])
    return vector.create_mask(kind, [count])
