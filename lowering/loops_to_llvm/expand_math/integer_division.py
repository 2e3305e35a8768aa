"""Rewrites divisions of integers by divisors that are not constant as divisions of floats, which LLVM vectorises.

    %q = arith.divsi %x, %y : i32      →      %q = fptosi (sitofp %x : f64) / (sitofp %y : f64)

If x / y is not whole, it differs from the next whole number by at least 1 / |y|, that is, by 2^-31 of itself in 32
bits. So f64 never rounds it up to that number, nor does f32 for 16 bits. For 64 bits, the float's quotient is off by up
to 2^11. The remainder is divided once more, after which the quotient may be off by one. The divisor must not be 0, nor
-1 if the dividend is the lowest number.
"""

from __future__ import annotations

from collections.abc import Callable

from cuesta._mlir import arith, ir, rewrite, scf
from cuesta.dialects import maker
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, Value

#: The largest double below 2^63.
_LARGEST = 9223372036854774784.0
_SLT, _EQ = arith.CmpIPredicate.slt, arith.CmpIPredicate.eq

OPS: tuple[type[ir.OpView], ...] = (
    *(arith.DivSIOp, arith.RemSIOp, arith.FloorDivSIOp),
    *(arith.DivUIOp, arith.RemUIOp),
)


def expansion(b: Builder, kind: type[ir.OpView]) -> Callable[[ir.OpView, rewrite.PatternRewriter], bool]:
    """The rewrite pattern of an op. Leaves wide unsigned types, and constant divisors, for which LLVM multiplies."""

    def expand(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        x, y = op.operands
        unsigned = kind in (arith.DivUIOp, arith.RemUIOp)
        if not isinstance(x.type, ir.IntegerType) or x.type.width not in ((8, 16) if unsigned else (8, 16, 32, 64)):
            return True
        if maker(y, arith.ConstantOp) is not None:
            return True
        if op.operation.parent.name == scf.WhileOp.OPERATION_NAME:  # LLVM does not vectorise these loops
            return True
        with rewriter.ip, op.location:
            quotient, rest = _divide(b, x, y, unsigned)
            if kind is arith.FloorDivSIOp:
                quotient = _floored(b, quotient, rest, y)
        rewriter.replace_op(op, [rest if kind in (arith.RemSIOp, arith.RemUIOp) else quotient])
        return False

    return expand


def _divide(b: Builder, x: Value, y: Value, unsigned: bool) -> tuple[Value, Value]:
    """The quotient, rounded to zero, and the remainder."""
    if x.type.width == 64:
        return _divide_wide(b, x, y)
    wide = b.f64 if x.type.width == 32 else b.f32
    to_float, to_int = (arith.uitofp, arith.fptoui) if unsigned else (arith.sitofp, arith.fptosi)
    quotient = to_int(x.type, b.div(to_float(wide, x), to_float(wide, y)))
    return quotient, b.isub(x, arith.muli(quotient, y))


def _divide_wide(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    divisor = arith.sitofp(b.f64, y)
    quotient = arith.fptosi(b.i64, b.at_most(b.div(arith.sitofp(b.f64, x), divisor), _LARGEST))
    left = b.isub(x, arith.muli(quotient, y))
    more = arith.fptosi(b.i64, b.div(arith.sitofp(b.f64, left), divisor))
    quotient, left = b.iadd(quotient, more), b.isub(left, arith.muli(more, y))
    # A remainder must have the sign of x and be less than y in magnitude. A step of `towards` corrects the quotient.
    sign = arith.shrsi(b.xor(x, y), b.const(63, b.i64))
    towards = arith.ori(sign, b.const(1, b.i64))
    wrong_sign = arith.cmpi(_SLT, b.xor(left, x), b.const(0, b.i64))
    below = b.both(wrong_sign, b.invert(arith.cmpi(_EQ, left, b.const(0, b.i64))))
    above = b.invert(arith.cmpi(arith.CmpIPredicate.ult, _magnitude(b, left), _magnitude(b, y)))
    step = b.select(below, b.isub(b.const(0, b.i64), towards), b.select(above, towards, b.const(0, b.i64)))
    return b.iadd(quotient, step), b.isub(left, arith.muli(step, y))


def _magnitude(b: Builder, x: Value) -> Value:
    """|x| as an unsigned number."""
    sign = arith.shrsi(x, b.const(63, b.i64))
    return b.isub(b.xor(x, sign), sign)


def _floored(b: Builder, quotient: Value, rest: Value, y: Value) -> Value:
    """The quotient rounded down: one less if the remainder and the divisor have different signs."""
    zero = b.const(0, y.type)
    differ = arith.cmpi(_SLT, b.xor(rest, y), zero)
    adjust = b.both(differ, b.invert(arith.cmpi(_EQ, rest, zero)))
    return b.select(adjust, b.isub(quotient, b.const(1, y.type)), quotient)
