"""Imports batch norm in evaluation, and the custom ops that frontend/decompositions puts into a graph in training."""

from __future__ import annotations

import math

from cuesta.dialects import types
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.normalisation import scaled
from cuesta.frontend.aten.reduction import variance
from cuesta.frontend.call import Call
from cuesta.frontend.rules import imports
from cuesta.sizes import Number


def _dims(x: Value) -> list[int]:
    return [d for d in range(len(shape_of(x))) if d != 1]


def _count(x: Value) -> Number:
    """The number of elements of a channel."""
    return math.prod(shape_of(x)[d] for d in _dims(x))


def _correction(b: GraphBuilder, count: Number, spelling: str) -> Value:
    """The factor n / (n - 1) that makes a channel's variance unbiased."""
    whole = b.constant(count, "f64")
    return b.convert(b.pointwise("div", whole, b.with_number("sub", whole, 1)), spelling)


@imports("batch_norm_statistics", namespace="cuesta")
def statistics(b: Call, x: Value, mean: Value, var: Value, momentum: float, eps: float) -> list[Value]:
    own_var, own_mean = variance(b, b.convert(x, opmath(spelling_of(x))), _dims(x), 0, False)
    rstd = b.pointwise("rsqrt", b.with_number("add", own_var, eps))
    results = [own_mean, rstd]
    unbiased = b.pointwise("mul", own_var, _correction(b, _count(x), spelling_of(own_var)))
    for new, old, meta in zip((own_mean, unbiased), (mean, var), b.meta[2:], strict=True):
        kind = types.SPELLING[meta.dtype]
        parts = [(new, momentum), (old, 1 - momentum)]
        results.append(b.pointwise("add", *(b.with_number("mul", b.convert(v, kind), share) for v, share in parts)))
    return results


@imports("_native_batch_norm_legit_no_training")
def evaluated(
    b: Call, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, momentum: float, eps: float
) -> list[Value | None]:
    """Kept as one op until here: AOTAutograd would trace a dozen ops of torch's decomposition twice per layer."""
    kind, column = opmath(spelling_of(x)), [shape_of(x)[1], *[1] * (len(shape_of(x)) - 2)]
    mean, var = b.convert(mean, kind), b.convert(var, kind)
    rstd = b.pointwise("reciprocal", b.pointwise("sqrt", b.with_number("add", var, eps)))
    y = b.pointwise("sub", b.convert(x, kind), b.reshape(mean, column))
    y = scaled(b, b.pointwise("mul", y, b.reshape(rstd, column)), weight, bias, column)
    # On a CPU torch saves no statistics: these results are empty, and nothing reads them.
    saved = [mean, rstd] if b.meta[1].numel() else [None, None]
    return [b.convert(y, spelling_of(x)), *saved]


@imports("batch_norm_backward", namespace="cuesta")
def backward(b: Call, grad: Value, x: Value, weight: Value | None, mean: Value, rstd: Value) -> list[Value]:
    kind = opmath(spelling_of(x))
    sizes, dims = shape_of(x), _dims(x)
    column = [sizes[1], *[1] * (len(sizes) - 2)]
    share = b.pointwise("reciprocal", b.constant(_count(x), kind))
    wide, mean, rstd = (b.convert(v, kind) for v in (grad, mean, rstd))
    centred = b.pointwise("sub", b.convert(x, kind), b.reshape(mean, column))
    total = b.reduce("sum", wide, dims)
    product = b.reduce("sum", b.pointwise("mul", wide, centred), dims)
    along = b.pointwise("mul", b.pointwise("mul", product, share), b.pointwise("mul", rstd, rstd))
    scale = rstd if weight is None else b.pointwise("mul", rstd, b.convert(weight, kind))
    rest = b.pointwise("sub", wide, b.pointwise("mul", centred, b.reshape(along, column)))
    rest = b.pointwise("sub", rest, b.reshape(b.pointwise("mul", total, share), column))
    dx = b.pointwise("mul", rest, b.reshape(scale, column))
    own = spelling_of(x if weight is None else weight)
    dweight = b.pointwise("mul", product, rstd)
    return [b.convert(dx, spelling_of(x)), b.convert(dweight, own), b.convert(total, own)]
