"""Expands transcendental functions and remf of f32, f16 and bf16 scalars, and of vectors of f32, and divisions of
integers, into arithmetic that LLVM vectorises.

    %y = math.exp %x : f32      →      %0 = math.fma %x, %c, %magic : f32
                                       … a polynomial and a scale by a power of two

Special values come out as in torch eager: NaN, infinities, signed zeros, denormals, overflow and
gradual underflow. f16 and bf16 are computed in f32. Of f64, only what upstream computes badly is
expanded; the rest, other vectors, and the functions without a row here are left for libm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuesta._mlir import arith, ir, math, rewrite
from cuesta.lowering.loops_to_llvm.expand_math import (
    double_precision,
    error_function,
    exponential,
    hyperbolic,
    integer_division,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    sign,
    trigonometric,
)
from cuesta.lowering.loops_to_llvm.expand_math.builder import Builder, element_of
from cuesta.passes.registry import Pass, register_pass


@dataclass(frozen=True)
class MathFunction:
    """One function: its op, and what builds its value from f32 operands, and from f64 ones if anything does."""

    op: type[ir.OpView]
    emit: Callable[..., ir.Value]
    emit_wide: Callable[..., ir.Value] | None = None


FUNCTIONS = {
    "exp": MathFunction(math.ExpOp, exponential.exp),
    "exp2": MathFunction(math.Exp2Op, exponential.exp2),
    "expm1": MathFunction(math.ExpM1Op, exponential.expm1, double_precision.expm1),
    "tanh": MathFunction(math.TanhOp, exponential.tanh),
    "log": MathFunction(math.LogOp, logarithm.log),
    "log2": MathFunction(math.Log2Op, logarithm.log2),
    "log10": MathFunction(math.Log10Op, logarithm.log10),
    "log1p": MathFunction(math.Log1pOp, logarithm.log1p, double_precision.log1p),
    "sinh": MathFunction(math.SinhOp, hyperbolic.sinh),
    "cosh": MathFunction(math.CoshOp, hyperbolic.cosh),
    "asinh": MathFunction(math.AsinhOp, hyperbolic.asinh),
    "acosh": MathFunction(math.AcoshOp, hyperbolic.acosh),
    "atanh": MathFunction(math.AtanhOp, hyperbolic.atanh),
    "erf": MathFunction(math.ErfOp, error_function.erf),
    "erfc": MathFunction(math.ErfcOp, error_function.erfc),
    "sin": MathFunction(math.SinOp, trigonometric.sin),
    "cos": MathFunction(math.CosOp, trigonometric.cos),
    "tan": MathFunction(math.TanOp, trigonometric.tan),
    "asin": MathFunction(math.AsinOp, inverse_trigonometric.asin),
    "acos": MathFunction(math.AcosOp, inverse_trigonometric.acos),
    "atan": MathFunction(math.AtanOp, inverse_trigonometric.atan),
    "atan2": MathFunction(math.Atan2Op, inverse_trigonometric.atan2),
    "powf": MathFunction(math.PowFOp, power.powf),
    "rsqrt": MathFunction(math.RsqrtOp, power.rsqrt),
    "remf": MathFunction(arith.RemFOp, remainder.remf),
}


@register_pass("expand-math")
@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expands the functions of FUNCTIONS on f32, f16 and bf16 scalars, and divisions, into inline arithmetic."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            builder = Builder()
            patterns = rewrite.RewritePatternSet()
            for function in FUNCTIONS.values():
                patterns.add(function.op, _expansion(builder, function))
            for op in integer_division.OPS:
                patterns.add(op, integer_division.expansion(builder, op))
            rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())
            signs = rewrite.RewritePatternSet()
            signs.add(math.CopySignOp, sign.expand)
            rewrite.walk_and_apply_patterns(module.operation, signs.freeze())


def _expansion(b: Builder, function: MathFunction) -> Callable[[ir.OpView, rewrite.PatternRewriter], bool]:
    """The rewrite pattern of one function; returns True, "no match", for types that stay."""
    narrow_types = (ir.F16Type.get(), ir.BF16Type.get())

    def expand(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        kind = op.results[0].type
        operands = list(op.operands)
        if element_of(kind) == b.f32 or (kind == b.f64 and function.emit_wide):
            emit = function.emit_wide if kind == b.f64 else function.emit
            assert emit is not None
            with rewriter.ip, op.location:
                value = emit(b, *operands)
        elif kind in narrow_types:
            with rewriter.ip, op.location:
                wide = [arith.ExtFOp(b.f32, operand).result for operand in operands]
                value = arith.TruncFOp(kind, function.emit(b, *wide)).result
        else:
            return True
        rewriter.replace_op(op, [value])
        return False

    return expand
