"""Interprets the tt ops that make, broadcast, move and reduce blocks, and block arithmetic, on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from cuesta._mlir import arith, ir
from cuesta.dialects.tt import ops
from cuesta.dialects.tt.instructions import (
    BYTE,
    E4M3,
    E5M2,
    HIGH_HALF,
    LOGISTIC,
    LOW_HALF,
    OF_BYTES,
    OF_FLOATS,
    POWER,
    PRODUCT,
    RECIPROCAL,
    ROUND,
    SIGNED_BYTE,
    WIDEN,
    ElementwiseInlineAsm,
)
from cuesta.dialects.tt.interpreter.program import Action, Builder, Execution, Run, action_maker, elementwise, maker
from cuesta.dialects.tt.interpreter.values import (
    Array,
    InterpreterError,
    from_memory,
    held,
    spelling,
    to_bf16,
    to_memory,
    whole,
)
from cuesta.dialects.tt.types import shape_of

#: What instructions make of bytes.
OF_BYTE: dict[str, Callable[[Array], Array]] = {
    BYTE: lambda x: x + np.float32(1 << 23),
    SIGNED_BYTE: lambda x: (x ^ 128) + np.float32(1 << 23),
    LOW_HALF: lambda x: (x & 15) + np.float32(128),
    HIGH_HALF: lambda x: (x >> 4) + np.float32(128),
    E4M3: lambda x: _of_float8(x, torch.float8_e4m3fn),
    E5M2: lambda x: _of_float8(x, torch.float8_e5m2),
}


def _of_float8(x: Array, dtype: torch.dtype) -> Array:
    numbers: Array = torch.from_numpy(x).view(dtype).float().numpy()
    return numbers


#: What instructions make of f32.
OF_FLOAT: dict[str, Callable[..., Array]] = {
    ROUND: to_bf16,
    POWER: np.exp2,
    RECIPROCAL: np.reciprocal,
    PRODUCT: np.multiply,
    LOGISTIC: lambda x: np.float32(1) / (np.float32(1) + np.exp(-x)),
}


# -- programs ------------------------------------------------------------------------------------
@action_maker(ops.GetProgramId)
def _get_program_id(op: ir.Operation) -> Action:
    axis = ops.GetProgramId.axis.of(op)
    return lambda run, x: (run.ids[axis],)


@action_maker(ElementwiseInlineAsm)
def _instruction(op: ir.Operation) -> Action:
    text = ElementwiseInlineAsm.asm_string.of(op)
    if text in OF_FLOATS:
        of_float = OF_FLOAT[OF_FLOATS[text]]
        return lambda run, x: (of_float(*x),)
    if text == WIDEN:
        return lambda run, x: (x[0],)  # bf16 is held as f32
    if text in OF_BYTES:
        of_byte = OF_BYTE[OF_BYTES[text]]
        return lambda run, x: (of_byte(x[0].view(np.uint8)).astype(np.float32),)
    nothing = np.zeros((), np.int32)
    return lambda run, x: (nothing,)  # kernels run one after the other


# -- shapes --------------------------------------------------------------------------------------
@action_maker(ops.MakeRange)
def _make_range(op: ir.Operation) -> Action:
    numbers = np.arange(ops.MakeRange.start.of(op), ops.MakeRange.end.of(op), dtype=np.int32)[None]
    return lambda run, x: (numbers,)


@action_maker(ops.Splat)
def _splat(op: ir.Operation) -> Action:
    ones = (1,) * len(shape_of(op.result))
    return lambda run, x: (x[0].reshape(x[0].shape[:1] + ones),)


@action_maker(ops.Broadcast)
def _broadcast(op: ir.Operation) -> Action:
    return lambda run, x: (x[0],)


@action_maker(ops.ExpandDims)
def _expand_dims(op: ir.Operation) -> Action:
    axis = ops.ExpandDims.axis.of(op) + 1
    return lambda run, x: (np.expand_dims(x[0], axis),)


@action_maker(ops.Reshape, ops.Unsplat)
def _reshape(op: ir.Operation) -> Action:
    """Keeps the order of the elements, which `allow_reorder` would leave open."""
    old, new = shape_of(op.operands[0]), shape_of(op.result)
    return lambda run, x: (whole(x[0], old).reshape(x[0].shape[:1] + new),)


@action_maker(ops.Trans)
def _trans(op: ir.Operation) -> Action:
    order = (0, *(d + 1 for d in ops.Trans.order.of(op)))
    return lambda run, x: (np.transpose(x[0], order),)


@action_maker(ops.Split)
def _split(op: ir.Operation) -> Action:
    return lambda run, x: (x[0][..., 0], x[0][..., -1])


# -- arithmetic ----------------------------------------------------------------------------------
elementwise(ops.PreciseSqrt, np.sqrt)
elementwise(ops.PreciseDivF, np.divide)


@action_maker(ops.Bitcast)
def _bitcast(op: ir.Operation) -> Action:
    source, target = spelling(op.operands[0]), spelling(op.result)
    if source == target:
        return lambda run, x: (x[0],)
    to = {"bf16": np.dtype(np.uint16)}.get(target, held(np.zeros(0), target).dtype)
    return lambda run, x: (from_memory(np.ascontiguousarray(to_memory(x[0], source)).view(to), target),)


@action_maker(ops.Dot)
def _dot(op: ir.Operation) -> Action:
    """Operands narrower than the accumulator are widened first; tf32 computes like ieee."""
    kind = spelling(op.result)
    wide = np.int32 if kind == "i32" else np.float64 if kind == "f64" else np.float32
    left, right = shape_of(op.operands[0]), shape_of(op.operands[1])

    def multiply(a: Array, b: Array, c: Array) -> Array:
        product = np.matmul(whole(a, left).astype(wide), whole(b, right).astype(wide))
        return held(product + c.astype(wide, copy=False), kind)

    return lambda run, x: (multiply(*x),)


# -- regions -------------------------------------------------------------------------------------
#: Combiners of one op for which numpy has a reduction, and whose results do not depend on the order. Sums and products
#: of floats are not among them: combined in a tree, as on a GPU, they are more exact than in numpy's order.
_UFUNCS = {
    arith.AddIOp: np.add,
    arith.MulIOp: np.multiply,
    arith.MaximumFOp: np.maximum,
    arith.MinimumFOp: np.minimum,
    arith.MaxNumFOp: np.fmax,
    arith.MinNumFOp: np.fmin,
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
}


def _whole_ufunc(op: ir.Operation) -> np.ufunc | None:
    """The ufunc that is equal to the combiner of `op`, or None."""
    body = list(op.regions[0].blocks[0].operations)
    if len(body) != 2 or len(op.operands) != 1 or spelling(op.operands[0]) in ("bf16", "f16", "i1"):
        return None
    if list(body[0].operands) != list(op.regions[0].blocks[0].arguments) or body[1].operands[0] != body[0].result:
        return None
    return _UFUNCS.get(type(body[0]))


def _combiner(builder: Builder, op: ir.Operation) -> Callable[[Run, Sequence[Array]], list[Array]]:
    block = op.regions[0].blocks[0]
    own = {*block.arguments, *(r for inner in block.operations for r in inner.operation.results)}
    for inner in block.operations:
        for value in inner.operation.operands:
            owner = value.owner
            constant = not isinstance(owner, ir.Block) and owner.name == arith.ConstantOp.OPERATION_NAME
            if value not in own and not constant:
                raise InterpreterError(f"the combiner of '{op.name}' at {op.location} uses a value from outside")
    return builder.block(block).run


@maker(ops.Reduce)
def _reduce(builder: Builder, op: ir.Operation) -> Execution:
    """Halves the axis until one element is left, or uses numpy's own reduction if `_UFUNCS` has the combiner."""
    dim = ops.Reduce.axis.of(op)
    axis, size = dim + 1, shape_of(op.operands[0])[dim]
    ufunc = _whole_ufunc(op)
    if ufunc is not None:
        reduce_whole = ufunc.reduce
        return builder.bind(op, lambda run, x: (reduce_whole(_sized(x[0], axis, size), axis=axis, dtype=x[0].dtype),))
    combine = _combiner(builder, op)

    def reduce(run: Run, x: list[Array]) -> list[Array]:
        current = [_sized(y, axis, size) for y in x]
        left = size
        while left > 1:
            left //= 2
            halves = [_part(y, axis, half) for half in (slice(0, left), slice(left, 2 * left)) for y in current]
            current = [_sized(y, axis, left) for y in combine(run, halves)]
        return [np.take(y, 0, axis=axis) for y in current]

    return builder.bind(op, reduce)


@maker(ops.Scan)
def _scan(builder: Builder, op: ir.Operation) -> Execution:
    """Scans in log2(n) rounds: combines each element with that 1, 2, 4, … places before."""
    dim = ops.Scan.axis.of(op)
    axis, size = dim + 1, shape_of(op.operands[0])[dim]
    backwards = ops.Scan.reverse.of(op)
    ufunc = _whole_ufunc(op)
    combine = _combiner(builder, op)

    def scan(run: Run, x: list[Array]) -> list[Array]:
        current = [_sized(y, axis, size) for y in x]
        if backwards:
            current = [np.flip(y, axis) for y in current]
        if ufunc is not None:
            current = [ufunc.accumulate(y, axis=axis, dtype=y.dtype) for y in current]
        else:
            current = rounds(run, current)
        return [np.flip(y, axis) for y in current] if backwards else current

    def rounds(run: Run, current: list[Array]) -> list[Array]:
        step = 1
        while step < size:
            earlier = [_part(y, axis, slice(0, size - step)) for y in current]
            later = [_part(y, axis, slice(step, size)) for y in current]
            combined = [_sized(y, axis, size - step) for y in combine(run, [*earlier, *later])]
            heads = [_part(y, axis, slice(0, step)) for y in current]
            current = [_joined(h, c, axis) for h, c in zip(heads, combined, strict=True)]
            step *= 2
        return current

    return builder.bind(op, scan)


def _sized(x: Array, axis: int, size: int) -> Array:
    """`x` with one axis broadcast to full size; a combiner that gives a constant may have shrunk dims to size 1."""
    if x.ndim <= axis:
        x = x.reshape(x.shape[0], *(1,) * axis)
    return np.broadcast_to(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


def _part(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * axis + (part,)]


def _joined(x: Array, y: Array, axis: int) -> Array:
    """Concatenates x and y along `axis`; the other axes may have size 1 in either."""
    shape = np.broadcast_shapes(*(_part(a, axis, slice(0, 1)).shape for a in (x, y)))
    sized = [np.broadcast_to(a, (*shape[:axis], a.shape[axis], *shape[axis + 1 :])) for a in (x, y)]
    return np.concatenate(sized, axis=axis)
