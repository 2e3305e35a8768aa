"""Pointwise ops, one row each: name, arity, scalar meaning, torch reference.

Operands broadcast as torch's do (trailing dimensions aligned, size 1 stretches) and all have the
type that the op computes in; `cuesta.convert` makes them so. bf16 and f16 compute in f32.
"""

import math as pymath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

from cuesta._mlir import arith, ext, ir, math
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS, Operation
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Pointwise:
    """One regular op.

    `scalar(s, *operands, **params)` builds the meaning for one element with a `Scalar` s.
    `promotion` says how ATen chooses the computing type: "same" (common type), "float" (integers
    become f32), "compare" (common type, bool result) or "logical" (operands become bool).
    `params` are float attributes. `cost` is in units of one addition, for the fusion's cost model.
    """

    name: str
    arity: int
    scalar: Callable[..., Value]
    reference: Callable[..., Any]
    promotion: str = "same"
    params: tuple[str, ...] = ()
    cost: int = 1


def _gelu(s: Scalar, x: Value) -> Value:
    half = s.mul(s.const(x, 0.5), x)
    return s.mul(half, s.add(s.const(x, 1), math.erf(s.mul(x, s.const(x, pymath.sqrt(0.5))))))


def _gelu_tanh(s: Scalar, x: Value) -> Value:
    half = s.mul(s.const(x, 0.5), x)
    return s.mul(half, s.add(s.const(x, 1), math.tanh(s.polynomial_tanh_argument(x))))


def _gelu_backward(s: Scalar, g: Value, x: Value) -> Value:
    cdf = s.mul(s.const(x, 0.5), s.add(s.const(x, 1), math.erf(s.mul(x, s.const(x, pymath.sqrt(0.5))))))
    pdf = s.mul(math.exp(s.mul(s.mul(x, x), s.const(x, -0.5))), s.const(x, 1 / pymath.sqrt(2 * pymath.pi)))
    return s.mul(g, s.add(cdf, s.mul(x, pdf)))


def _gelu_tanh_backward(s: Scalar, g: Value, x: Value) -> Value:
    one, half = s.const(x, 1), s.const(x, 0.5)
    t = math.tanh(s.polynomial_tanh_argument(x))
    inner = s.mul(s.const(x, pymath.sqrt(2 / pymath.pi)), s.add(one, s.mul(s.const(x, 3 * 0.044715), s.mul(x, x))))
    left = s.mul(half, s.add(one, t))
    right = s.mul(s.mul(half, x), s.mul(s.sub(one, s.mul(t, t)), inner))
    return s.mul(g, s.add(left, right))


def _gelu_backward_reference(g: torch.Tensor, x: torch.Tensor, **named: str) -> torch.Tensor:
    # oneDNN's kernel neither broadcasts nor reads strides of 0.
    g, x = (t.contiguous() for t in torch.broadcast_tensors(g, x))
    return torch.ops.aten.gelu_backward(g, x, **named)


def _silu_backward(s: Scalar, g: Value, x: Value) -> Value:
    one, sig = s.const(x, 1), s.sigmoid(x)
    return s.mul(s.mul(g, sig), s.add(one, s.mul(x, s.sub(one, sig))))


def _sign(s: Scalar, x: Value) -> Value:
    zero, one = s.const(x, 0), s.const(x, 1)
    negative = s.const(x, 0) if s.unsigned else s.const(x, -1)
    positive_part = s.select(s.compare("gt", x, zero), one, zero)
    return s.select(s.compare("lt", x, zero), negative, positive_part)


def _floor_divide(s: Scalar, x: Value, y: Value) -> Value:
    if isinstance(x.type, ir.FloatType):
        # Python's floor division, step by step as ATen's div_floor_floating does it.
        remainder = arith.remf(x, y)
        quotient = s.div(s.sub(x, remainder), y)
        zero, one = s.const(x, 0), s.const(x, 1)
        differ = arith.xori(s.compare("lt", y, zero), s.compare("lt", remainder, zero))
        adjust = arith.andi(s.compare("ne", remainder, zero), differ)
        quotient = s.select(adjust, s.sub(quotient, one), quotient)
        floored = math.floor(quotient)
        floored = s.select(s.compare("gt", s.sub(quotient, floored), s.const(x, 0.5)), s.add(floored, one), floored)
        signed_zero = math.copysign(zero, s.div(x, y))
        rounded = s.select(s.compare("eq", quotient, zero), signed_zero, floored)
        return s.select(s.compare("eq", y, zero), s.div(x, y), rounded)
    return arith.divui(x, y) if s.unsigned else arith.floordivsi(x, y)


def _remainder(s: Scalar, x: Value, y: Value) -> Value:
    zero = s.const(x, 0)
    if s.unsigned:
        return arith.remui(x, y)
    r = arith.remf(x, y) if isinstance(x.type, ir.FloatType) else arith.remsi(x, y)
    differ = arith.xori(s.compare("lt", y, zero), s.compare("lt", r, zero))
    return s.select(arith.andi(s.compare("ne", r, zero), differ), s.add(r, y), r)


def _leaky(s: Scalar, x: Value, negative_slope: float) -> Value:
    return s.select(s.compare("gt", x, s.const(x, 0)), x, s.mul(x, s.const(x, negative_slope)))


def _elu(s: Scalar, x: Value, alpha: float, scale: float, input_scale: float) -> Value:
    bent = s.mul(s.const(x, alpha), math.expm1(s.mul(x, s.const(x, input_scale))))
    return s.mul(s.select(s.compare("gt", x, s.const(x, 0)), x, bent), s.const(x, scale))


def _softplus(s: Scalar, x: Value, beta: float, threshold: float) -> Value:
    scaled = s.mul(x, s.const(x, beta))
    soft = s.div(math.log1p(math.exp(scaled)), s.const(x, beta))
    return s.select(s.compare("gt", scaled, s.const(x, threshold)), x, soft)


def _relu(s: Scalar, x: Value) -> Value:
    return s.maximum(x, s.const(x, 0))


def _is_inf(s: Scalar, x: Value) -> Value:
    return s.compare("eq", s.abs(x), s.const(x, pymath.inf)) if isinstance(x.type, ir.FloatType) else s.const(i1(), 0)


def _is_nan(s: Scalar, x: Value) -> Value:
    return s.is_nan(x) if isinstance(x.type, ir.FloatType) else s.const(i1(), 0)


def i1() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def _rounding(op: Callable[[Value], Value]) -> Callable[..., Value]:
    return lambda s, x: op(x) if isinstance(x.type, ir.FloatType) else x


def _unary(op: Callable[[Value], Value]) -> Callable[..., Value]:
    return lambda s, x: op(x)


def _compare(predicate: str) -> Callable[..., Value]:
    return lambda s, x, y: s.compare(predicate, x, y)


def _pow(s: Scalar, x: Value, y: Value) -> Value:
    return math.powf(x, y)


ROWS: tuple[Pointwise, ...] = (
    # Arithmetic
    Pointwise("add", 2, lambda s, x, y: s.add(x, y), torch.add),
    Pointwise("sub", 2, lambda s, x, y: s.sub(x, y), torch.sub),
    Pointwise("mul", 2, lambda s, x, y: s.mul(x, y), torch.mul),
    Pointwise("div", 2, lambda s, x, y: s.div(x, y), torch.div, "float", cost=4),
    Pointwise("floor_divide", 2, _floor_divide, torch.floor_divide, cost=10),
    Pointwise("remainder", 2, _remainder, torch.remainder, cost=10),
    Pointwise("neg", 1, lambda s, x: s.neg(x), torch.neg),
    Pointwise("abs", 1, lambda s, x: s.abs(x), torch.abs),
    Pointwise("sign", 1, _sign, torch.sign, cost=2),
    Pointwise("maximum", 2, lambda s, x, y: s.maximum(x, y), torch.maximum),
    Pointwise("minimum", 2, lambda s, x, y: s.minimum(x, y), torch.minimum),
    Pointwise("reciprocal", 1, lambda s, x: s.div(s.const(x, 1), x), torch.reciprocal, "float", cost=4),
    Pointwise("square", 1, lambda s, x: s.mul(x, x), torch.square),
    Pointwise("sqrt", 1, _unary(math.sqrt), torch.sqrt, "float", cost=4),
    Pointwise("rsqrt", 1, _unary(math.rsqrt), torch.rsqrt, "float", cost=6),
    Pointwise("pow", 2, _pow, torch.pow, "float", cost=30),
    # Exponentials and their kin
    Pointwise("exp", 1, _unary(math.exp), torch.exp, "float", cost=10),
    Pointwise("exp2", 1, _unary(math.exp2), torch.exp2, "float", cost=10),
    Pointwise("expm1", 1, _unary(math.expm1), torch.expm1, "float", cost=12),
    Pointwise("log", 1, _unary(math.log), torch.log, "float", cost=12),
    Pointwise("log2", 1, _unary(math.log2), torch.log2, "float", cost=12),
    Pointwise("log1p", 1, _unary(math.log1p), torch.log1p, "float", cost=14),
    Pointwise("erf", 1, _unary(math.erf), torch.erf, "float", cost=14),
    Pointwise("tanh", 1, _unary(math.tanh), torch.tanh, "float", cost=12),
    Pointwise("sin", 1, _unary(math.sin), torch.sin, "float", cost=14),
    Pointwise("cos", 1, _unary(math.cos), torch.cos, "float", cost=14),
    Pointwise("sigmoid", 1, lambda s, x: s.sigmoid(x), torch.sigmoid, "float", cost=15),
    # Rounding and classification
    Pointwise("floor", 1, _rounding(math.floor), torch.floor),
    Pointwise("ceil", 1, _rounding(math.ceil), torch.ceil),
    Pointwise("round", 1, _rounding(math.roundeven), torch.round),
    Pointwise("trunc", 1, _rounding(math.trunc), torch.trunc),
    Pointwise("isnan", 1, _is_nan, torch.isnan, "compare"),
    Pointwise("isinf", 1, _is_inf, torch.isinf, "compare"),
    # Comparison and logic
    Pointwise("eq", 2, _compare("eq"), torch.eq, "compare"),
    Pointwise("ne", 2, _compare("ne"), torch.ne, "compare"),
    Pointwise("lt", 2, _compare("lt"), torch.lt, "compare"),
    Pointwise("le", 2, _compare("le"), torch.le, "compare"),
    Pointwise("gt", 2, _compare("gt"), torch.gt, "compare"),
    Pointwise("ge", 2, _compare("ge"), torch.ge, "compare"),
    Pointwise("bitwise_and", 2, lambda s, x, y: arith.andi(x, y), torch.bitwise_and),
    Pointwise("bitwise_or", 2, lambda s, x, y: arith.ori(x, y), torch.bitwise_or),
    Pointwise("bitwise_xor", 2, lambda s, x, y: arith.xori(x, y), torch.bitwise_xor),
    Pointwise("bitwise_not", 1, lambda s, x: arith.xori(x, s.const(x, -1)), torch.bitwise_not),
    Pointwise("logical_and", 2, lambda s, x, y: arith.andi(x, y), torch.logical_and, "logical"),
    Pointwise("logical_or", 2, lambda s, x, y: arith.ori(x, y), torch.logical_or, "logical"),
    Pointwise("logical_xor", 2, lambda s, x, y: arith.xori(x, y), torch.logical_xor, "logical"),
    Pointwise("logical_not", 1, lambda s, x: arith.xori(x, s.const(x, -1)), torch.logical_not, "logical"),
    # Activations
    Pointwise("relu", 1, _relu, torch.relu),
    Pointwise("gelu", 1, _gelu, F.gelu, "float", cost=18),
    Pointwise("gelu_tanh", 1, _gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), "float", cost=20),
    Pointwise("silu", 1, lambda s, x: s.mul(x, s.sigmoid(x)), F.silu, "float", cost=16),
    Pointwise("leaky_relu", 1, _leaky, F.leaky_relu, "float", ("negative_slope",), cost=2),
    Pointwise("elu", 1, _elu, torch.ops.aten.elu, "float", ("alpha", "scale", "input_scale"), cost=16),
    Pointwise("softplus", 1, _softplus, F.softplus, "float", ("beta", "threshold"), cost=26),
    # Their backward forms
    Pointwise("gelu_backward", 2, _gelu_backward, _gelu_backward_reference, "float", cost=32),
    Pointwise(
        "gelu_tanh_backward",
        2,
        _gelu_tanh_backward,
        lambda g, x: _gelu_backward_reference(g, x, approximate="tanh"),
        "float",
        cost=30,
    ),
    Pointwise("silu_backward", 2, _silu_backward, torch.ops.aten.silu_backward, "float", cost=20),
    Pointwise(
        "tanh_backward",
        2,
        lambda s, g, y: s.mul(g, s.sub(s.const(y, 1), s.mul(y, y))),
        torch.ops.aten.tanh_backward,
        "float",
        cost=3,
    ),
    Pointwise(
        "sigmoid_backward",
        2,
        lambda s, g, y: s.mul(s.mul(g, s.sub(s.const(y, 1), y)), y),
        torch.ops.aten.sigmoid_backward,
        "float",
        cost=3,
    ),
    Pointwise(
        "threshold_backward",
        2,
        lambda s, g, x, threshold: s.select(s.compare("le", x, s.const(x, threshold)), s.const(x, 0), g),
        torch.ops.aten.threshold_backward,
        "same",
        ("threshold",),
    ),
)

BY_NAME: dict[str, Pointwise] = {row.name: row for row in ROWS}


class Where(Operation, name="where", traits=[ext.Pure]):
    """`condition ? x : y`, all three broadcast; condition is i1."""

    condition: ext.Operand[Any]
    x: ext.Operand[Any]
    y: ext.Operand[Any]
    result: ext.Result[Any]


class Convert(Operation, name="convert", traits=[ext.Pure]):
    """The operand in the result's element type, as `Tensor.to(dtype)` converts."""

    x: ext.Operand[Any]
    result: ext.Result[Any]


REFERENCES["cuesta.where"] = lambda op, operands: torch.where(*operands)
REFERENCES["cuesta.convert"] = lambda op, operands: operands[0].to(types.torch_dtype(types.spelling_of(op.results[0])))


def parameters(op: ir.Operation) -> dict[str, float]:
    """The float attributes of a pointwise op."""
    row = BY_NAME[op.name.removeprefix("cuesta.")]
    return {name: op.attributes[name].value for name in row.params}


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape that `shapes` broadcast to, or None where they do not."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for sizes in zip(*[(1,) * (rank - len(s)) + tuple(s) for s in shapes], strict=True):
        stretched = {size for size in sizes if size != 1}
        if len(stretched) > 1:
            return None
        result.append(stretched.pop() if stretched else 1)
    return tuple(result)


def _verify_broadcast(op: ir.Operation) -> str | None:
    shapes = [types.shape_of(v) for v in op.operands]
    expected = broadcast_shape(*shapes)
    actual = types.shape_of(op.results[0])
    if expected is None:
        return f"operand shapes {shapes} do not broadcast"
    if expected != actual:
        return f"operands broadcast to {list(expected)}, but the result is {list(actual)}"
    return None


def _verify_row(op: ir.Operation) -> str | None:
    row = BY_NAME[op.name.removeprefix("cuesta.")]
    taken = [types.spelling_of(v) for v in op.operands]
    if len(set(taken)) > 1:
        return f"operands have the element types {', '.join(taken)}; cuesta.convert makes them one"
    expected, actual = "i1" if row.promotion == "compare" else taken[0], types.spelling_of(op.results[0])
    if expected != actual:
        return f"computes {expected} from {taken[0]}, but the result is {actual}"
    return _verify_broadcast(op)


def _verify_where(op: ir.Operation) -> str | None:
    condition, *chosen = (types.spelling_of(v) for v in (*op.operands, op.results[0]))
    if condition != "i1" or len(set(chosen)) > 1:
        return f"takes i1 and two of the result's element type, got {condition}, {chosen[0]}, {chosen[1]} → {chosen[2]}"
    return _verify_broadcast(op)


def _define(row: Pointwise) -> type:
    operands = dict.fromkeys("xyzw"[: row.arity], ext.Operand[Any])
    annotations = operands | dict.fromkeys(row.params, ir.FloatAttr) | {"result": ext.Result[Any]}
    namespace = {"__annotations__": annotations, "__doc__": f"`{row.name}`, element by element."}
    cls = type(row.name, (Operation,), namespace, name=row.name, traits=[ext.Pure])
    VERIFIERS[f"cuesta.{row.name}"] = _verify_row
    REFERENCES[f"cuesta.{row.name}"] = lambda op, xs: row.reference(*xs, *parameters(op).values())
    return cls


OPS: dict[str, type] = {row.name: _define(row) for row in ROWS}
VERIFIERS["cuesta.where"] = _verify_where
VERIFIERS["cuesta.convert"] = _verify_broadcast
