"""Imports pointwise ATen ops. Ops of the dialect's table are imported by name; the exceptions have rules here."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.fx import Node

from cuesta._mlir import ir
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import SPELLING, is_float, opmath, shape_of, spelling_of, torch_dtype
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports
from cuesta.torch_private.ops import schema_of

#: Higher derivatives of digamma are left to ATen: each takes a polynomial of higher degree and a sum of more terms.
_MOST_DERIVATIVES = 6


def operand(b: GraphBuilder, x: Any, spelling: str) -> Value:
    """A tensor converted to `spelling`, or a Python number as a 0-d constant of it."""
    return b.convert(x, spelling) if isinstance(x, ir.Value) else b.constant(x, spelling)


def refuse_integers(x: Value) -> None:
    """Leaves an op that ATen computes for floats only to ATen, which raises its own error for other types."""
    if not is_float(spelling_of(x)):
        raise Decline("integer input: ATen raises")


def at_least_1d(b: GraphBuilder, x: Value) -> Value:
    """A 0-d value reshaped to one dim of size 1; other values unchanged."""
    return x if shape_of(x) else b.reshape(x, [1])


def joined(b: GraphBuilder, name: str, parts: Iterable[Value]) -> Value:
    """The parts combined by the pointwise op `name`, from the first to the last."""
    return functools.reduce(lambda x, y: b.pointwise(name, x, y), parts)


def in_opmath(b: Call, compute: Callable[..., Value], *xs: Any) -> Value:
    """Applies `compute` to the operands in the type of arithmetic on the result's, and rounds the result once."""
    wide = opmath(b.spelling)
    return b.convert(compute(*(operand(b, x, wide) for x in xs)), b.spelling)


def by_number(b: Call, compute: Callable[..., Value], x: Any, y: Any) -> Value:
    """Applies `compute` to two operands. As in eager, a Python number is not rounded to a narrow float type."""
    if isinstance(x, ir.Value) and isinstance(y, ir.Value):
        return compute(b.convert(x, b.spelling), b.convert(y, b.spelling))
    return in_opmath(b, compute, *(b.convert(v, b.spelling) if isinstance(v, ir.Value) else v for v in (x, y)))


def common_spelling(b: Call, *positions: int) -> str:
    """The type that torch promotes the call's arguments at `positions` to."""
    examples: list[Any] = []
    for position in positions:
        arg = b.node.args[position]
        examples.append(arg.meta["val"] if isinstance(arg, Node) else arg)
    tensors = [e for e in examples if isinstance(e, torch.Tensor)]
    if len({e.dtype for e in tensors}) == 1 and len(tensors) == len(examples):
        return SPELLING[tensors[0].dtype]
    dtype = torch.result_type(examples[0], examples[1]) if len(examples) == 2 else tensors[0].dtype
    return SPELLING[dtype]


def import_row(b: Call, row: pointwise.Pointwise, args: tuple[Any, ...]) -> Value:
    """Imports a call of an op that has a row. The call's arguments are the row's operands, then its parameters."""
    operands, rest = args[: row.arity], args[row.arity :]
    if len(rest) > len(row.params) or not set(b.node.kwargs) <= set(row.params):
        raise Decline("this overload has arguments that the op's table row does not take")
    params = dict(zip(row.params, (float(p) for p in rest), strict=False))
    schema = {a.name: a.default_value for a in schema_of(b.node.target).arguments}
    for name in row.params[len(rest) :]:
        params[name] = float(b.node.kwargs.get(name, schema.get(name)))  # type: ignore[arg-type]
    result = b.spelling
    if result == "f64" and not row.doubles:
        raise Decline("f64: the kernel is only as exact as f32")
    match row.promotion:
        case "compare":
            spelling = common_spelling(b, *range(row.arity))
        case "logical":
            spelling = "i1"
        case _:
            spelling = result
    value = b.pointwise(row.name, *(operand(b, x, spelling) for x in operands), result=None, **params)
    return b.convert(value, result)


@imports("add", "sub", "rsub")
def add(b: Call, x: Any, y: Any, alpha: float = 1) -> Value:
    spelling = b.spelling
    name = b.name
    if name != "add" and "i1" in {spelling_of(v) for v in (x, y) if isinstance(v, ir.Value)}:
        raise Decline("subtraction of bool: ATen raises")
    x, y = operand(b, x, spelling), operand(b, y, spelling)
    if spelling == "i1":
        if alpha != 1:
            raise Decline("addition of bool with alpha")
        return b.pointwise("logical_or", x, y)
    if name == "rsub":
        name, x, y = "sub", y, x
    if alpha == 1:
        return b.pointwise(name, x, y)
    # For a narrow float type, eager rounds alpha to that type, then only the result.
    factor = torch.tensor(alpha, dtype=torch_dtype(spelling)).item()
    return in_opmath(b, lambda x, y: b.pointwise(name, x, b.with_number("mul", y, factor)), x, y)


@imports("mul")
def mul(b: Call, x: Any, y: Any) -> Value:
    spelling = b.spelling
    if spelling == "i1":
        return b.pointwise("logical_and", operand(b, x, spelling), operand(b, y, spelling))
    return by_number(b, lambda x, y: b.pointwise("mul", x, y), x, y)


@imports("where")
def where(b: Call, condition: Value, x: Any, y: Any) -> Value:
    spelling = b.spelling
    return b.where(b.convert(condition, "i1"), operand(b, x, spelling), operand(b, y, spelling))


@imports("implied_where", namespace="cuesta")
def implied_where(b: Call, condition: Value, x: Value, other: float) -> Value:
    result = b.where(condition, x, b.constant(other, spelling_of(x)))
    pointwise.Where.implied.mark(result.owner)
    return result


@imports("masked_fill")
def masked_fill(b: Call, x: Value, mask: Value, value: Any) -> Value:
    filled = b.where(mask, operand(b, value, spelling_of(x)), x)
    return b.expand(filled, b.sizes)


@imports("clamp", "clamp_min", "clamp_max", "hardtanh")
def clamp(b: Call, x: Value, *bounds: Any, **named: Any) -> Value:
    name = b.name
    if name == "hardtanh":
        low = bounds[0] if bounds else named.get("min_val", -1.0)
        high = bounds[1] if len(bounds) > 1 else named.get("max_val", 1.0)
    elif name == "clamp":
        low = bounds[0] if bounds else named.get("min")
        high = bounds[1] if len(bounds) > 1 else named.get("max")
    else:
        bound = bounds[0] if bounds else next(iter(named.values()))
        low, high = (bound, None) if name == "clamp_min" else (None, bound)
    spelling = b.spelling
    value = b.convert(x, spelling)
    if low is not None:
        value = b.pointwise("maximum", value, operand(b, low, spelling))
    if high is not None:
        value = b.pointwise("minimum", value, operand(b, high, spelling))
    return value


@imports("gelu", "gelu_backward")
def gelu(b: Call, *xs: Value, approximate: str = "none") -> Value:
    backward = b.name == "gelu_backward"
    name = ("gelu" if approximate == "none" else "gelu_tanh") + ("_backward" if backward else "")
    return b.pointwise(name, *xs)


@imports("native_dropout_backward")
def dropout_backward(b: Call, grad: Value, mask: Value, scale: float) -> Value:
    spelling = b.spelling  # a float type, whatever the gradient's type is
    kept = b.pointwise("mul", b.convert(grad, spelling), b.convert(mask, spelling))
    return b.with_number("mul", kept, scale)


@imports("addcmul", "addcdiv")
def addcmul(b: Call, x: Value, y: Any, z: Any, value: float = 1) -> Value:
    name = "mul" if b.name == "addcmul" else "div"
    if "f" not in b.spelling and name == "div":
        raise Decline("no float: this op is compiled for floats only")

    def combine(x: Value, y: Value, z: Value) -> Value:
        scaled = y if value == 1 else b.with_number("mul", y, value)
        return b.pointwise("add", x, b.pointwise(name, scaled, z))

    return in_opmath(b, combine, x, y, z)


@imports("fma", namespace="prims")
def fma(b: Call, x: Value, y: Any, z: Value) -> Value:
    """x * y + z, which eager rounds twice. Torch decomposes an optimizer's addcmul into it."""
    return in_opmath(b, lambda x, y, z: b.pointwise("add", b.pointwise("mul", x, y), z), x, y, z)


@imports("lerp")
def lerp(b: Call, start: Value, end: Value, weight: Any) -> Value:
    """start + weight * (end - start), from the nearer end as ATen does, so that a weight of 1 gives `end`."""
    if "f" not in b.spelling:
        raise Decline("no float: this op is compiled for floats only")

    def mix(start: Value, end: Value, weight: Value) -> Value:
        apart = b.pointwise("sub", end, start)
        from_start = b.pointwise("add", start, b.pointwise("mul", weight, apart))
        rest = b.pointwise("sub", b.constant(1, spelling_of(weight)), weight)
        from_end = b.pointwise("sub", end, b.pointwise("mul", apart, rest))
        if known is not None:
            return from_start if abs(known) < 0.5 else from_end
        return b.where(b.with_number("lt", b.pointwise("abs", weight), 0.5), from_start, from_end)

    known = float(weight) if isinstance(weight, (int, float)) else None
    return in_opmath(b, mix, start, end, weight)


@imports("erfinv")
def erfinv(b: Call, x: Value) -> Value:
    if b.on_cpu and b.spelling == "f32" and torch.backends.mkl.is_available():
        raise Decline("erfinv of f32 runs in the library (MKL)")
    return import_row(b, pointwise.BY_NAME["erfinv"], (x,))


@imports("nextafter")
def nextafter(b: Call, x: Value, y: Value) -> Value:
    if b.spelling == "f16":
        raise Decline("f16: eager has no nextafter for it")
    return import_row(b, pointwise.BY_NAME["nextafter"], (x, y))


@imports("frexp.Tensor")
def frexp(b: Call, x: Value) -> list[Value]:
    return [b.pointwise("frexp_mantissa", x), b.convert(b.pointwise("frexp_exponent", x), "i32")]


@imports("polygamma")
def polygamma(b: Call, n: int, x: Value) -> Value:
    if n > _MOST_DERIVATIVES:
        raise Decline(f"derivative of digamma of an order above {_MOST_DERIVATIVES}")
    row = pointwise.BY_NAME["polygamma" if n else "digamma"]
    return import_row(b, row, (x, n) if n else (x,))


@imports("hardswish", "hardsigmoid")
def hardswish(b: Call, x: Value) -> Value:
    def compute(x: Value) -> Value:
        gate = b.with_number("minimum", b.with_number("maximum", b.with_number("add", x, 3.0), 0.0), 6.0)
        if b.name == "hardswish":
            gate = b.pointwise("mul", x, gate)
        return b.with_number("div", gate, 6.0)

    return in_opmath(b, compute, x)


@imports("_to_copy")
def to_copy(b: Call, x: Value, **kwargs: Any) -> Value:
    if b.given(0).device != b.meta.device:
        raise Decline("torch copies between devices")
    return b.convert(x, b.spelling)


@imports("convert_element_type", namespace="prims")
def convert_element_type(b: Call, x: Value, _: torch.dtype) -> Value:
    return b.convert(x, b.spelling)


@imports("isfinite")
def isfinite(b: Call, x: Value) -> Value:
    if "f" not in spelling_of(x):
        return b.constant(1, "i1", shape_of(x))
    # |x| < inf is false for NaN and for both infinities.
    return b.with_number("lt", b.pointwise("abs", x), math.inf)


@imports("angle")
def angle(b: Call, x: Value) -> Value:
    """The angle of a real number: pi below zero, NaN for NaN, else 0."""
    spelling = b.spelling
    wide = b.convert(x, spelling)
    flat = b.where(b.with_number("lt", wide, 0), b.constant(math.pi, spelling), b.constant(0, spelling))
    return b.where(b.pointwise("isnan", wide), wide, flat)
