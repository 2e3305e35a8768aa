"""Expands transcendental functions and remf of floats, and divisions of integers, into arithmetic that LLVM vectorises.
Also defines the result of conversions to integers for floats out of the integer's range.

    %y = math.exp %x : f32      →      %0 = math.fma %x, %c, %magic : f32
                                       … a polynomial and a scale by a power of two

Special values come out as in torch eager: NaN, infinities, signed zeros, denormals, overflow and gradual underflow. f16
and bf16 are computed in f32. sin, cos and tan of f64 become calls (vector_functions.py). These are left for libm: remf
of f64, vectors of f16 and bf16, f64 vectors of sin, cos and tan, and functions that are not in FUNCTIONS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cuesta._mlir import arith, ir, math, rewrite
from cuesta.lowering.loops_to_llvm.expand_math import (
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
from cuesta.lowering.loops_to_llvm.expand_math.conversion import define_conversions
from cuesta.lowering.loops_to_llvm.expand_math.double import error_function as double_error_function
from cuesta.lowering.loops_to_llvm.expand_math.double import exponential as double_exponential
from cuesta.lowering.loops_to_llvm.expand_math.double import logarithm as double_logarithm
from cuesta.lowering.loops_to_llvm.expand_math.double import power as double_power
from cuesta.lowering.loops_to_llvm.expand_math.vector_functions import call_vector_functions
from cuesta.passes.infra.registry import Pass, register_pass


@dataclass(frozen=True)
class MathFunction:
    """A function: its op, and the emitters that build its value from f32 operands and, if there is one, from f64."""

    op: type[ir.OpView]
    emit: Callable[..., ir.Value]
    emit_wide: Callable[..., ir.Value] | None = None


FUNCTIONS = {
    "exp": MathFunction(math.ExpOp, exponential.exp, double_exponential.exp),
    "exp2": MathFunction(math.Exp2Op, exponential.exp2, double_exponential.exp2),
    "expm1": MathFunction(math.ExpM1Op, exponential.expm1, double_exponential.expm1),
    "tanh": MathFunction(math.TanhOp, exponential.tanh, double_exponential.tanh),
    "log": MathFunction(math.LogOp, logarithm.log, double_logarithm.log),
    "log2": MathFunction(math.Log2Op, logarithm.log2, double_logarithm.log2),
    "log10": MathFunction(math.Log10Op, logarithm.log10, double_logarithm.log10),
    "log1p": MathFunction(math.Log1pOp, logarithm.log1p, double_logarithm.log1p),
    "sinh": MathFunction(math.SinhOp, hyperbolic.sinh, hyperbolic.sinh),
    "cosh": MathFunction(math.CoshOp, hyperbolic.cosh, hyperbolic.cosh),
    "asinh": MathFunction(math.AsinhOp, hyperbolic.asinh, hyperbolic.asinh),
    "acosh": MathFunction(math.AcoshOp, hyperbolic.acosh, hyperbolic.acosh),
    "atanh": MathFunction(math.AtanhOp, hyperbolic.atanh, hyperbolic.atanh),
    "erf": MathFunction(math.ErfOp, error_function.erf, double_error_function.erf),
    "erfc": MathFunction(math.ErfcOp, error_function.erfc, double_error_function.erfc),
    "sin": MathFunction(math.SinOp, trigonometric.sin),
    "cos": MathFunction(math.CosOp, trigonometric.cos),
    "tan": MathFunction(math.TanOp, trigonometric.tan),
    "asin": MathFunction(math.AsinOp, inverse_trigonometric.asin, inverse_trigonometric.asin),
    "acos": MathFunction(math.AcosOp, inverse_trigonometric.acos, inverse_trigonometric.acos),
    "atan": MathFunction(math.AtanOp, inverse_trigonometric.atan, inverse_trigonometric.atan),
    "atan2": MathFunction(math.Atan2Op, inverse_trigonometric.atan2, inverse_trigonometric.atan2),
    "powf": MathFunction(math.PowFOp, power.powf, double_power.powf),
    "rsqrt": MathFunction(math.RsqrtOp, power.rsqrt, power.rsqrt),
    "remf": MathFunction(arith.RemFOp, remainder.remf),
}


@register_pass("expand-math")
class ExpandMath(Pass):
    """Expands the functions of FUNCTIONS on floats, and divisions of integers, into inline arithmetic."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            builder = Builder()
            define_conversions(builder, module)
            patterns = rewrite.RewritePatternSet()
            for function in FUNCTIONS.values():
                patterns.add(function.op, _expansion(builder, function))
            for op in integer_division.OPS:
                patterns.add(op, integer_division.expansion(builder, op))
            rewrite.walk_and_apply_patterns(module.operation, patterns.freeze())
            call_vector_functions(builder, module)
            signs = rewrite.RewritePatternSet()
            signs.add(math.CopySignOp, sign.expand)
            signs.add(arith.TruncFOp, sign.expand_rounded)
            rewrite.walk_and_apply_patterns(module.operation, signs.freeze())


def _expansion(b: Builder, function: MathFunction) -> Callable[[ir.OpView, rewrite.PatternRewriter], bool]:
    """The rewrite pattern of a function; returns True, "no match", for types that are not expanded."""

    def expand(op: ir.OpView, rewriter: rewrite.PatternRewriter) -> bool:
        kind = op.results[0].type
        operands = list(op.operands)
        with rewriter.ip, op.location:
            if element_of(kind) == b.f32:
                value = function.emit(b, *operands)
            elif element_of(kind) == b.f64 and function.emit_wide:
                value = function.emit_wide(b, *operands)
            elif kind in (b.f16, b.bf16):
                wide = [arith.ExtFOp(b.f32, operand).result for operand in operands]
                value = arith.TruncFOp(kind, function.emit(b, *wide)).result
            else:
                return True
        rewriter.replace_op(op, [value])
        return False

    return expand
