"""Imports quotients, remainders, powers and shifts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import SPELLING, shape_of, spelling_of, torch_dtype
from cuesta.frontend.aten.pointwise import by_number, in_opmath, operand
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports


@imports("div", "true_divide")
def div(b: Call, x: Any, y: Any, rounding_mode: str | None = None) -> Value:
    match rounding_mode:
        case "floor":
            return _floor_divide(b, x, y)
        case "trunc":
            return _whole_quotient(b, x, y, "trunc_divide", _narrow_trunc_divide)
    return by_number(b, lambda x, y: b.pointwise("div", x, y), x, y)


@imports("floor_divide", "remainder", "fmod")
def floor_divide(b: Call, x: Any, y: Any) -> Value:
    spelling = b.spelling
    name = b.name
    if name == "floor_divide":
        return _floor_divide(b, x, y)
    x, y = operand(b, x, spelling), operand(b, y, spelling)
    return b.pointwise(name, x, _nonzero_divisor(b, y))


def _floor_divide(b: Call, x: Any, y: Any) -> Value:
    return _whole_quotient(b, x, y, "floor_divide", _narrow_floor_divide)


def _whole_quotient(b: Call, x: Any, y: Any, row: str, stepwise: Callable[..., Value]) -> Value:
    """The quotient by the pointwise op `row`. For narrow floats ATen rounds each step, so a quotient that rounds up to
    an integer becomes that integer. But for a divisor of one element on a CPU, ATen rounds neither it nor the steps."""
    spelling = b.spelling
    x = operand(b, x, spelling)
    if spelling in ("bf16", "f16") and isinstance(y, ir.Value):
        one = b.on_cpu and math.prod(shape_of(y)) == 1
        if not one:
            return stepwise(b, x, operand(b, y, spelling))
    return in_opmath(b, lambda x, y: b.pointwise(row, x, _nonzero_divisor(b, y)), x, y)


def _narrow_trunc_divide(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.pointwise("trunc", b.pointwise("div", x, y))


def _narrow_floor_divide(b: GraphBuilder, x: Value, y: Value) -> Value:
    """The steps of the pointwise op floor_divide, one op each."""
    ratio, rest = b.pointwise("div", x, y), b.pointwise("fmod", x, y)
    quotient = b.pointwise("div", b.pointwise("sub", x, rest), y)
    differ = b.pointwise("ne", b.with_number("lt", y, 0), b.with_number("lt", rest, 0))
    adjust = b.pointwise("logical_and", b.with_number("ne", rest, 0), differ)
    quotient = b.where(adjust, b.with_number("sub", quotient, 1), quotient)
    floored = b.pointwise("floor", quotient)
    above = b.with_number("gt", b.pointwise("sub", quotient, floored), 0.5)
    floored = b.where(above, b.with_number("add", floored, 1), floored)
    signed_zero = b.pointwise("copysign", b.constant(0, spelling_of(x)), ratio)
    floored = b.where(b.with_number("eq", quotient, 0), signed_zero, floored)
    return b.where(b.with_number("eq", y, 0), ratio, floored)


def _nonzero_divisor(b: Call, y: Value) -> Value:
    # For a tensor divisor, `decompose` makes the program check for zeros.
    if "i" in spelling_of(y) and b.node.args[1] in (0, False):
        raise Decline("integer division by zero: ATen raises")
    return y


@imports("pow")
def pow_(b: Call, x: Any, exponent: Any) -> Value:
    spelling = b.spelling
    base = operand(b, x, spelling)
    if "f" not in spelling:
        return _whole_power(b, base, exponent)
    if not isinstance(exponent, (int, float)):
        return b.pointwise("pow", base, operand(b, exponent, spelling))
    simple = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 2: "square"}
    if exponent in simple:
        return b.pointwise(simple[exponent], base)
    if exponent == 1:
        return base
    if exponent == 3:
        return in_opmath(b, lambda x: b.pointwise("mul", b.pointwise("square", x), x), base)
    if exponent == 4:
        return in_opmath(b, lambda x: b.pointwise("square", b.pointwise("square", x)), base)
    return b.with_number("pow", base, exponent)


def _whole_power(b: GraphBuilder, base: Value, exponent: Any) -> Value:
    """base ** exponent of integers; overflow wraps as in multiplication."""
    if isinstance(exponent, ir.Value):
        if not on_cpu(base):
            raise Decline("GPU kernels have no loops whose number of steps depends on the data")
        return b.pointwise("whole_power", base, b.convert(exponent, spelling_of(base)))
    if not isinstance(exponent, int):
        raise Decline("integer base with an exponent that is no int")
    if exponent < 0:
        raise Decline("integer base with a negative exponent: ATen raises")
    result = None
    while exponent:
        if exponent & 1:
            result = base if result is None else b.pointwise("mul", result, base)
        exponent >>= 1
        base = b.pointwise("mul", base, base) if exponent else base
    return b.constant(1, spelling_of(base), shape_of(base)) if result is None else result


@imports("__lshift__", "__rshift__")
def shift(b: Call, x: Any, count: Any) -> Value:
    spelling = b.spelling
    if "i" not in spelling:
        raise Decline("shift of floats: ATen multiplies by a power of two")
    name = "bitwise_left_shift" if "__lshift__" in b.name else "bitwise_right_shift"
    return b.pointwise(name, operand(b, x, spelling), operand(b, count, spelling))


@imports("ldexp")
def ldexp(b: Call, x: Value, exponent: Value) -> Value:
    """x · 2^exponent. As in eager, the power is computed in a type of its own."""
    whole = "f" not in spelling_of(exponent)
    power_spelling = SPELLING[torch.get_default_dtype()] if whole else spelling_of(exponent)
    power = b.pointwise("exp2", b.convert(exponent, power_spelling))
    spelling = b.spelling
    return b.pointwise("mul", b.convert(x, spelling), b.convert(power, spelling))


@imports("round.decimals")
def round_decimals(b: Call, x: Value, *, decimals: int) -> Value:
    """Scales by a power of ten in x's own type. Eager rounds narrow floats once on a CPU, at each step on a GPU."""
    power = torch.tensor(10.0 ** abs(decimals), dtype=torch_dtype(b.spelling)).item()
    there, back = ("mul", "div") if decimals >= 0 else ("div", "mul")

    def compute(x: Value) -> Value:
        return b.with_number(back, b.pointwise("round", b.with_number(there, x, power)), power)

    return in_opmath(b, compute, x) if b.on_cpu else compute(x)
