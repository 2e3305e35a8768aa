"""Imports ATen's reductions: makes dims explicit, and decomposes means and variances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta.dialects import types
from cuesta.dialects.cuesta import normalisation, reduction
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import refuse_integers
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports

_RUNNING: dict[str, Any] = {
    "cumsum": reduction.CumSum,
    "cumprod": reduction.CumProd,
    "logcumsumexp": reduction.LogCumSumExp,
}


def all_dims(x: Value, dims: int | Sequence[int] | None) -> list[int]:
    """`dims` as non-negative numbers; None or an empty list stands for all dims."""
    rank = len(shape_of(x))
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    chosen = [dims] if isinstance(dims, int) else list(dims)
    return sorted({d % rank for d in chosen}) if rank else []


def _reduce(b: GraphBuilder, name: str, x: Value, dims: list[int], keepdim: bool) -> Value:
    return b.reduce(name, x, dims, keepdim) if dims else x


@imports("sum", "prod")
def sum_(b: Call, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
    result = b.spelling
    wide = opmath(result)
    total = _reduce(b, b.name, b.convert(x, wide), all_dims(x, dims), keepdim)
    return b.convert(total, result)


@imports("mean")
def mean(b: Call, x: Value, dims: Any = None, keepdim: bool = False, **_: Any) -> Value:
    result = b.spelling
    return b.convert(b.mean(b.convert(x, opmath(result)), all_dims(x, dims), keepdim), result)


@imports("amax", "amin", "max.default", "min.default")
def amax(b: Call, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
    name = b.name
    return _reduce(b, {"max": "amax", "min": "amin"}.get(name, name), x, all_dims(x, dims), keepdim)


@imports("any", "all")
def any_(b: Call, x: Value, dims: Any = None, keepdim: bool = False) -> Value:
    if b.spelling != "i1":
        raise Decline("uint8: the result is uint8, not bool")
    _, name, overload = str(b.node.target).split(".")
    # This overload, for several dims, reads an empty list as no dims; all other reductions read it as all dims.
    none = overload == "dims" and dims is not None and not dims
    return _reduce(b, name, b.convert(x, "i1"), [] if none else all_dims(x, dims), keepdim)


def _argmax(b: GraphBuilder, name: str, x: Value, dim: int, keepdim: bool) -> Value:
    sizes = list(shape_of(x))
    kept = [1 if d == dim else s for d, s in enumerate(sizes)]
    removed = sizes[:dim] + sizes[dim + 1 :]
    op = reduction.ArgMax if name == "argmax" else reduction.ArgMin
    index = op(x, dim, types.tensor(removed, "i64")).result
    return b.reshape(index, kept) if keepdim else index


@imports("argmax", "argmin")
def argmax(b: Call, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    name = b.name
    if not shape_of(x):
        return b.constant(0, "i64")
    if dim is None:
        index = _argmax(b, name, b.reshape(x, [math.prod(shape_of(x))]), 0, False)
        return b.reshape(index, b.sizes)
    return _argmax(b, name, x, dim % len(shape_of(x)), keepdim)


@imports("max.dim", "min.dim")
def max_dim(b: Call, x: Value, dim: int, keepdim: bool = False) -> list[Value]:
    if not shape_of(x):
        return [x, b.constant(0, "i64")]
    name = b.name
    dim %= len(shape_of(x))
    return [b.reduce("a" + name, x, [dim], keepdim), _argmax(b, "arg" + name, x, dim, keepdim)]


def variance(b: GraphBuilder, x: Value, dims: list[int], correction: float, keepdim: bool) -> tuple[Value, Value]:
    """(variance, mean) over `dims`, in two passes, because ATen's Welford algorithm is exact to rounding."""
    kept_mean = b.mean(x, dims, keepdim=True)
    squares = b.pointwise("square", b.pointwise("sub", x, kept_mean))
    count = math.prod(shape_of(x)[d] for d in dims)
    total = b.reduce("sum", squares, dims, keepdim)
    if isinstance(count, int):
        divisor = b.constant(max(count - correction, 0), spelling_of(x))
    else:
        divisor = b.with_number("maximum", b.with_number("sub", b.constant(count, spelling_of(x)), correction), 0)
    var = b.pointwise("div", total, divisor)
    return var, (kept_mean if keepdim else b.reshape(kept_mean, shape_of(var)))


@imports("var", "var_mean", "std")
def var(b: Call, x: Value, dims: Any = None, *args: Any, **kwargs: Any) -> Any:
    keepdim = kwargs.get("keepdim", args[1] if len(args) > 1 else False)
    correction = kwargs.get("correction", 1)
    if args and not isinstance(args[0], bool):
        raise Decline("no import rule takes this overload's arguments")
    if args or "unbiased" in kwargs:
        correction = 1 if kwargs.get("unbiased", args[0] if args else True) else 0
    if isinstance(dims, bool):
        dims, correction = None, int(dims)
    correction = 1 if correction is None else correction
    result = spelling_of(x)
    value, average = variance(b, b.convert(x, opmath(result)), all_dims(x, dims), correction, keepdim)
    name = b.name
    if name == "var_mean":
        return [b.convert(value, result), b.convert(average, result)]
    return b.convert(b.pointwise("sqrt", value) if name == "std" else value, result)


@imports("logsumexp")
def logsumexp(b: Call, x: Value, dims: Any, keepdim: bool = False) -> Value:
    result = b.spelling
    x, chosen = b.convert(x, opmath(result)), all_dims(x, dims)
    if not chosen:  # x is 0-d
        return b.convert(x, result)
    kept = [size for d, size in enumerate(shape_of(x)) if d not in chosen]
    value = normalisation.LogSumExp(x, chosen, types.tensor(kept, spelling_of(x))).result
    return b.convert(b.reshape(value, b.sizes), result)


@imports("cumsum", "cumprod", "logcumsumexp")
def running(b: Call, x: Value, dim: int, **_: Any) -> Value:
    result = b.spelling
    if not shape_of(x):
        return b.convert(x, result)
    wide, op = b.convert(x, opmath(result)), _RUNNING[b.name]
    dim %= len(shape_of(x))
    if op is reduction.LogCumSumExp:
        refuse_integers(wide)
        declines_along_rows(b, dim)
    return b.convert(op(wide, dim, wide.type).result, result)


def declines_along_rows(b: Call, dim: int) -> None:
    """Leaves a running reduction along rows on a CPU to ATen. The CPU predicts ATen's branches, but each step of ours
    waits for the step before. Measured: ATen's `logcumsumexp` takes two thirds of our time, its `cummax` a quarter."""
    operand = b.given(0)
    if operand.device.type == "cpu" and dim == operand.dim() - 1:
        raise Decline("running reduction along rows: each step waits for the one before")
