"""Rewrites copysign as bit operations if the sign comes from an f64 and the result becomes f16.

    %s = arith.truncf %w : f64 to f32          %m = bits of %x, less the sign
    %y = math.copysign %x, %s          →       %y = %m or the sign in the bits of %w
    %z = arith.truncf %y : f32 to f16          %z = arith.truncf %y : f32 to f16

Rounding keeps the sign, so LLVM's backend takes the sign from %w directly, and moves the rounding of %x before the
copysign, through any number of conversions. Then it converts %w to f16 for its sign, and f64 to f16 is a call of a
function that does not exist. LLVM also recognises masked bits of equal width as a copysign, so an f64 that gets the
sign of an f64 is rounded to f32 first.
"""

from __future__ import annotations

from cuesta._mlir import arith, func, ir, math, rewrite
from cuesta.dialects import walk
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value, element_of

_CONVERSIONS = (arith.TruncFOp.OPERATION_NAME, arith.ExtFOp.OPERATION_NAME)


def expand(op: math.CopySignOp, rewriter: rewrite.PatternRewriter) -> bool:
    """The rewrite pattern of copysign; returns True, "no match", if LLVM's backend can compile the op."""
    magnitude, sign = op.operands
    told = _told_by(op, sign)
    if told is None or told.type == magnitude.type:
        return True
    with rewriter.ip, op.location:
        signed = _in_bits(Builder(), magnitude, told)
    rewriter.replace_op(op, [signed])
    return False


def expand_rounded(op: arith.TruncFOp, rewriter: rewrite.PatternRewriter) -> bool:
    """The rewrite pattern for roundings to f32 of copysign(f64, f64). Rounds the magnitude first."""
    signed = op.operands[0].owner
    if not isinstance(element_of(op.operands[0].type), ir.F64Type) or not isinstance(signed, math.CopySignOp):
        return True
    if ir.F16Type.get(op.context) not in _becomes(op.result):
        return True
    magnitude, told = signed.operands
    with rewriter.ip, op.location:
        rounded = arith.TruncFOp(op.result.type, magnitude).result
        value = _in_bits(Builder(), rounded, told)
    rewriter.replace_op(op, [value])
    return False


def _told_by(op: math.CopySignOp, sign: Value) -> Value | None:
    """The value to take the sign bit from, if LLVM's copysign would fail: the f64 that `sign` was converted from, or an
    f16 from memory, which LLVM may trace to a stored rounded f64. None if LLVM's copysign works."""
    f16, wide = ir.F16Type.get(op.context), sign
    while isinstance(wide.owner, ir.Operation | ir.OpView) and wide.owner.name in _CONVERSIONS:
        wide = wide.owner.operands[0]
    if isinstance(element_of(wide.type), ir.F64Type):
        return wide if f16 in _becomes(op.result) else None
    return wide if wide.type != sign.type and element_of(wide.type) == f16 and _has_f64(op) else None


def _becomes(x: Value) -> set[ir.Type]:
    """The element type of x and all element types that x is converted to, through chains of conversions."""
    converted = [use.owner.results[0] for use in x.uses if use.owner.name in _CONVERSIONS]
    return {element_of(x.type)}.union(*map(_becomes, converted))


def _has_f64(op: ir.OpView) -> bool:
    """Whether the function that contains an op has values of f64."""
    function = op.operation
    while function.name != func.FuncOp.OPERATION_NAME:
        function = function.parent.operation
    return any(isinstance(result.type, ir.F64Type) for inner in walk(function) for result in inner.results)


def _in_bits(b: Builder, x: Value, told: Value) -> Value:
    """x with the sign of `told`, by bit operations."""
    bits, others = b.bits(x), b.bits(told)
    width, other = element_of(bits.type).width, element_of(others.type).width
    mask = 1 << (width - 1)
    if other > width:
        upper = arith.TruncIOp(bits.type, b.shift_right_unsigned(others, other - width)).result
    else:
        upper = b.shift_left(arith.ExtUIOp(bits.type, others).result, width - other)
    return b.from_bits(b.either(b.both(bits, mask - 1), b.both(upper, mask)))
