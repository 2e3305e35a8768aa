"""copysign of numbers that become f16, with the sign of an f64, in bits.

    %s = arith.truncf %w : f64 to f32          %m = bits of %x, less the sign
    %y = math.copysign %x, %s          →       %y = %m or the sign in the bits of %w
    %z = arith.truncf %y : f32 to f16          %z = arith.truncf %y : f32 to f16

Rounding keeps the sign, so LLVM's backend asks %w for it, and %x too is rounded before it is signed. The sign is then
that of %w in f16, and f64 to f16 is a call of a function that nothing has. Masked bits of %s are a copysign for LLVM.
"""

from __future__ import annotations

from cuesta._mlir import arith, ir, math, rewrite
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value, element_of

_CONVERSIONS = (arith.TruncFOp.OPERATION_NAME, arith.ExtFOp.OPERATION_NAME)


def expand(op: math.CopySignOp, rewriter: rewrite.PatternRewriter) -> bool:
    """The rewrite pattern; returns True, "no match", for copysigns that LLVM's backend compiles."""
    magnitude, sign = op.operands
    wide = sign
    while isinstance(wide.owner, ir.Operation | ir.OpView) and wide.owner.name in _CONVERSIONS:
        wide = wide.owner.operands[0]
    f16 = ir.F16Type.get(op.context)
    kinds = (op.result.type, *(result.type for use in op.result.uses for result in use.owner.results))
    if sign.type == wide.type or not isinstance(element_of(wide.type), ir.F64Type) or f16 not in map(element_of, kinds):
        return True
    with rewriter.ip, op.location:
        value = _in_bits(Builder(), magnitude, wide)
    rewriter.replace_op(op, [value])
    return False


def _in_bits(b: Builder, x: Value, wide: Value) -> Value:
    """x with the sign of an f64."""
    bits = b.bits(x)
    width = element_of(bits.type).width
    mask = 1 << (width - 1)
    upper = arith.TruncIOp(bits.type, b.shift_right_unsigned(b.bits(wide), 64 - width)).result
    return b.from_bits(b.either(b.both(bits, mask - 1), b.both(upper, mask)))
