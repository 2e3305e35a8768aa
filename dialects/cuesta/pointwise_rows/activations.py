"""Rows of activations and their gradients."""

import math as pymath
from typing import TypeAlias

import torch
import torch.nn.functional as F

from cuesta._mlir import arith, ir, math
from cuesta.dialects.cuesta.pointwise_rows.horner import polynomial
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


# Polynomials of -log2 of the normal distribution's upper tail on [0, 6], with an error of 2^-14.4 of the tail, and of
# 2^r on |r| <= 1/2, with an error of 2^-13.7.
_TAIL = (
    -2.299036168551538e-05,
    0.0006111033144406974,
    -0.007195573765784502,
    0.05118532478809357,
    0.4612720012664795,
    1.1501741409301758,
    1.0000648498535156,
)
_EXP2 = (0.05517180636525154, 0.2426110953092575, 0.6932609677314758, 0.9999280571937561)
#: Beyond this |x| the tail, 1 + erf, is 0 in f32.
_NO_TAIL = 6.0
#: 1.5 * 2^23 plus an exponent's bias: adding it rounds to an integer, which is left in the low bits as an exponent.
_MAGIC = 12582912.0 + 127.0


def _gelu_of_bf16(s: Scalar, x: Value) -> Value:
    """max(x, 0) - |x| · tail, with an error of 2^-13: a result that is rounded to 2^-9 needs no erf in f32."""
    a, i32 = s.abs(x), ir.IntegerType.get_signless(32)
    log = s.neg(polynomial(s, a, _TAIL))
    shifted = s.add(log, s.const(x, _MAGIC))
    power = polynomial(s, s.sub(log, s.sub(shifted, s.const(x, _MAGIC))), _EXP2)
    scale = arith.bitcast(x.type, arith.shli(arith.bitcast(i32, shifted), s.const(i32, 23)))
    tail = s.mul(a, s.mul(power, scale))
    zero = s.const(x, 0)
    tail = s.select(s.compare("lt", a, s.const(x, _NO_TAIL)), tail, zero)
    # This select keeps NaN.
    return s.sub(s.select(s.compare("lt", x, zero), zero, x), tail)


def _gelu(s: Scalar, x: Value) -> Value:
    if s.spelling == "bf16":
        return _gelu_of_bf16(s, x)
    half = s.mul(s.const(x, 0.5), x)
    return s.mul(half, s.add(s.const(x, 1), math.erf(s.mul(x, s.const(x, pymath.sqrt(0.5))))))


def _gelu_tanh(s: Scalar, x: Value) -> Value:
    """x/2·(1 + tanh u) as x·sigmoid(2u), which costs less and does not cancel where tanh u is near -1."""
    return s.mul(x, s.sigmoid(s.mul(s.const(x, 2), s.polynomial_tanh_argument(x))))


def _gelu_backward(s: Scalar, g: Value, x: Value) -> Value:
    cdf = s.mul(s.const(x, 0.5), s.add(s.const(x, 1), math.erf(s.mul(x, s.const(x, pymath.sqrt(0.5))))))
    pdf = s.mul(math.exp(s.mul(s.mul(x, x), s.const(x, -0.5))), s.const(x, 1 / pymath.sqrt(2 * pymath.pi)))
    return s.mul(g, s.add(cdf, s.mul(x, pdf)))


def _gelu_tanh_backward(s: Scalar, g: Value, x: Value) -> Value:
    """The gate is sigmoid(2u), its derivative by u is 2·e·high² with e = exp(-2·|u|): no numbers near 1 cancel."""
    one, u = s.const(x, 1), s.polynomial_tanh_argument(x)
    e = math.exp(s.mul(s.const(x, -2), math.absf(u)))
    high = s.div(one, s.add(one, e))
    low = s.mul(e, high)
    gate = s.select(s.compare("lt", u, s.const(x, 0)), low, high)
    slope = s.mul(s.const(x, 2 * pymath.sqrt(2 / pymath.pi)), s.add(one, s.mul(s.const(x, 3 * 0.044715), s.mul(x, x))))
    return s.mul(g, s.add(gate, s.mul(x, s.mul(s.mul(low, high), slope))))


def _gelu_backward_reference(g: torch.Tensor, x: torch.Tensor, **named: str) -> torch.Tensor:
    # oneDNN's kernel neither broadcasts nor reads strides of 0.
    g, x = (t.contiguous() for t in torch.broadcast_tensors(g, x))
    return torch.ops.aten.gelu_backward(g, x, **named)


def _silu_backward(s: Scalar, g: Value, x: Value) -> Value:
    one, sig = s.const(x, 1), s.sigmoid(x)
    return s.mul(s.mul(g, sig), s.add(one, s.mul(x, s.sub(one, sig))))


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


ROWS: tuple[Pointwise, ...] = (
    Pointwise("relu", 1, _relu, torch.relu),
    Pointwise("gelu", 1, _gelu, F.gelu, "float", cost=18),
    Pointwise("gelu_tanh", 1, _gelu_tanh, lambda x: F.gelu(x, approximate="tanh"), "float", cost=20),
    Pointwise("silu", 1, lambda s, x: s.mul(x, s.sigmoid(x)), F.silu, "float", cost=16),
    Pointwise("leaky_relu", 1, _leaky, F.leaky_relu, "float", ("negative_slope",), cost=2),
    Pointwise("elu", 1, _elu, torch.ops.aten.elu, "float", ("alpha", "scale", "input_scale"), cost=16),
    Pointwise("softplus", 1, _softplus, F.softplus, "float", ("beta", "threshold"), cost=26),
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
