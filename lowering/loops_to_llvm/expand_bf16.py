"""Converts between bf16 and f32 by integer arithmetic, to the nearest even number, as torch does.

%y = arith.extf %x : bf16 to f32      →      %0 = arith.extui (bitcast %x) : i16 to i32
                                             %y = bitcast (%0 << 16)

With AVX512-BF16 LLVM has an instruction for it, which turns denormals into zeros, and which it also
puts behind plain loads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuesta._mlir import arith, ir, rewrite
from cuesta.passes.registry import Pass, register_pass

_NAN = 0x7FC0


@register_pass("expand-bf16")
@dataclass(frozen=True)
class ExpandBf16(Pass):
    """Expands conversions of bf16 scalars into integer arithmetic."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            patterns = rewrite.RewritePatternSet()
            patterns.add(arith.ExtFOp, _rewrite(lambda op: op.operands[0].type, extend))
            patterns.add(arith.TruncFOp, _rewrite(lambda op: op.results[0].type, truncate))
            rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())


def extend(x: ir.Value, target: ir.Type) -> ir.Value:
    """bf16 as f32 or f64: its bits are the upper half of an f32's."""
    i32 = ir.IntegerType.get_signless(32)
    bits = arith.extui(i32, arith.bitcast(ir.IntegerType.get_signless(16), x))
    wide = arith.bitcast(ir.F32Type.get(), arith.shli(bits, _constant(i32, 16)))
    return wide if wide.type == target else arith.extf(target, wide)


def truncate(x: ir.Value, target: ir.Type) -> ir.Value:
    """f32 or f64 as bf16; f64 is rounded to f32 first, as torch rounds it."""
    i16, i32, f32 = ir.IntegerType.get_signless(16), ir.IntegerType.get_signless(32), ir.F32Type.get()
    x = x if x.type == f32 else arith.truncf(f32, x)
    bits = arith.bitcast(i32, x)
    sixteen = _constant(i32, 16)
    # Half of the last place that stays, less one unless that place is odd: ties go to even.
    odd = arith.andi(arith.shrui(bits, sixteen), _constant(i32, 1))
    rounded = arith.addi(bits, arith.addi(odd, _constant(i32, 0x7FFF)))
    upper = arith.trunci(i16, arith.shrui(rounded, sixteen))
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, x, x)
    return arith.bitcast(target, arith.select(is_nan, _constant(i16, _NAN), upper))


def _constant(kind: ir.Type, number: int) -> ir.Value:
    return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, number)).result


def _rewrite(
    narrow: Callable[[ir.OpView], ir.Type], convert: Callable[[ir.Value, ir.Type], ir.Value]
) -> Callable[[ir.OpView, rewrite.PatternRewriter], bool]:
    """The pattern for ops whose narrow side is bf16; returns True, "no match", for others."""
    bf16 = ir.BF16Type.get()

    def expand(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        if narrow(op) != bf16:
            return True
        with rewriter.ip, op.location:
            value = convert(op.operands[0], op.results[0].type)
        rewriter.replace_op(op, [value])
        return False

    return expand
