"""Imports softmax, norms and losses. Most of them are one op in ATen and one in the dialect."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from cuesta.dialects import types
from cuesta.dialects.cuesta import normalisation
from cuesta.dialects.graph_builder import GraphBuilder, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.frontend.aten.pointwise import at_least_1d, refuse_integers
from cuesta.frontend.call import Call
from cuesta.frontend.rules import Decline, imports, sizes_of
from cuesta.sizes import Number

#: ATen's op → the dialect's class, and what its builder takes after `dim`: for softmax, whether it is safe.
_CLASSES: dict[str, tuple[Any, tuple[bool, ...]]] = {
    "_softmax": (normalisation.Softmax, (False,)),
    "_safe_softmax": (normalisation.Softmax, (True,)),
    "_log_softmax": (normalisation.LogSoftmax, ()),
    "_softmax_backward_data": (normalisation.SoftmaxBackward, ()),
    "_log_softmax_backward_data": (normalisation.LogSoftmaxBackward, ()),
}


def _rank(x: Value) -> int:
    return len(shape_of(x))


@imports("_softmax", "_safe_softmax", "_log_softmax")
def softmax(b: Call, x: Value, dim: int, *_: Any, **__: Any) -> Value:
    cls, extra = _CLASSES[b.name]
    x = at_least_1d(b, b.convert(x, b.spelling))
    refuse_integers(x)
    y = cls(x, dim % _rank(x), *extra, x.type).result
    return b.reshape(y, b.sizes)


@imports("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(b: Call, grad: Value, y: Value, dim: int, dtype: torch.dtype) -> Value:
    if types.SPELLING[dtype] != spelling_of(grad):
        raise Decline("gradient and input have different dtypes")
    cls, _ = _CLASSES[b.name]
    grad, y = at_least_1d(b, grad), at_least_1d(b, y)
    dx = cls(grad, y, dim % _rank(y), grad.type).result
    return b.reshape(dx, b.sizes)


@imports("native_layer_norm")
def layer_norm(b: Call, x: Value, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> list[Value]:
    # A missing weight or bias is imported as a constant, which `decompose` omits from the arithmetic.
    weight = b.constant(1, spelling_of(x), shape) if weight is None else weight
    bias = b.constant(0, spelling_of(x), shape) if bias is None else bias
    y, mean, _ = b.meta
    x, weight, bias = _of_one_type(b, x, weight, bias)
    # If weight and input have different dtypes, torch's dtype inference and its kernels disagree on the statistics'
    # dtype; the graph follows the inference.
    kind = types.SPELLING[mean.dtype] if spelling_of(x) == types.SPELLING[y.dtype] else spelling_of(x)
    statistics = types.tensor(tuple(mean.shape), kind)
    op = normalisation.LayerNorm(x, weight, bias, len(shape), eps, x.type, statistics, statistics)
    return [b.convert(r, types.SPELLING[v.dtype]) for r, v in zip(op.operation.results, b.meta, strict=True)]


def _of_one_type(b: GraphBuilder, *values: Value) -> list[Value]:
    """The values unchanged if their types agree, else converted to the type of arithmetic on the first value."""
    kinds = {spelling_of(v) for v in values}
    wide = opmath(spelling_of(values[0]))
    if len(kinds) > 1 and not kinds <= {spelling_of(values[0]), wide}:
        raise Decline("weight and input have different dtypes")
    return [b.convert(v, wide) for v in values] if len(kinds) > 1 else list(values)


@imports("native_layer_norm_backward")
def layer_norm_backward(
    b: Call, grad: Value, x: Value, shape: Sequence[int], mean: Value, rstd: Value, *rest: Any
) -> list[Value | None]:
    weight, _bias, output_mask = rest
    weight = b.constant(1, spelling_of(x), shape) if weight is None else weight
    x, grad, weight = _of_one_type(b, x, grad, weight)
    if spelling_of(x) != types.SPELLING[b.given(1).dtype]:
        mean, rstd = b.convert(mean, spelling_of(x)), b.convert(rstd, spelling_of(x))
    parameter = types.tensor(list(shape), spelling_of(x))
    op = normalisation.LayerNormBackward(grad, x, mean, rstd, weight, len(shape), x.type, parameter, parameter)
    results = zip(op.operation.results, b.meta, output_mask, strict=True)
    return [b.convert(r, types.SPELLING[v.dtype]) if wanted else None for r, v, wanted in results]


def _space(x: Value, groups: int) -> list[Number]:
    """The iteration space of a group norm: samples, groups, channels of a group, and all dims of pixels. The latter
    stay apart: what follows the norm has them too."""
    samples, channels, *pixels = shape_of(x)
    return [samples, groups, channels // groups, *pixels]


def _dims_of_parameters(space: Sequence[Number]) -> list[Number]:
    """The sizes with which weight and bias, one number a channel, broadcast to a group norm's iteration space."""
    return [1, *space[1:3], *(1 for _ in space[3:])]


@imports("native_group_norm")
def group_norm(b: Call, x: Value, weight: Value | None, *rest: Any) -> list[Value]:
    """Computes in one iteration space, so that one kernel results."""
    bias, *_, groups, eps = rest
    space = _space(x, groups)
    along, within = _dims_of_parameters(space), [*range(2, len(space))]
    if on_cpu(x) and not b.given(0).is_contiguous():
        raise Decline("a group's few channels lie side by side: ATen's loop over all channels is faster")
    spelling = spelling_of(x)
    wide = opmath(spelling)
    grouped = b.convert(b.reshape(x, space), wide)
    mean = b.mean(grouped, within, keepdim=True)
    centred = b.pointwise("sub", grouped, mean)
    var = b.mean(b.pointwise("square", centred), within, keepdim=True)
    rstd = b.pointwise("rsqrt", b.with_number("add", var, eps))
    y = scaled(b, b.pointwise("mul", centred, rstd), weight, bias, along)
    results = [b.convert(b.reshape(y, shape_of(x)), spelling)]
    for value, meta in zip((mean, rstd), b.meta[1:], strict=True):
        results.append(b.convert(b.reshape(value, space[:2]), types.SPELLING[meta.dtype]))
    return results


def scaled(b: GraphBuilder, y: Value, weight: Value | None, bias: Value | None, along: Sequence[Number]) -> Value:
    """y * weight + bias, each of which may be None; `along` are the sizes with which they broadcast to y."""
    for name, parameter in (("mul", weight), ("add", bias)):
        if parameter is not None:
            y = b.pointwise(name, y, b.reshape(b.convert(parameter, spelling_of(y)), along))
    return y


@imports("normalised", namespace="cuesta")
def normalised(
    b: Call, x: Value, mean: Value, rstd: Value, weight: Value | None, bias: Value | None, groups: int
) -> Value:
    """Computes the result of a group norm, or of a layer norm where `groups` is 0, from its statistics."""
    space, along = [*shape_of(x)], [*shape_of(weight or bias or mean)]
    wide = opmath(spelling_of(x))
    mean, rstd = b.convert(mean, wide), b.convert(rstd, wide)
    if groups:
        space = _space(x, groups)
        along = _dims_of_parameters(space)
        mean, rstd = (b.reshape(v, [*space[:2], *(1 for _ in space[2:])]) for v in (mean, rstd))
    centred = b.pointwise("sub", b.convert(b.reshape(x, space), wide), mean)
    y = scaled(b, b.pointwise("mul", centred, rstd), weight, bias, along)
    return b.convert(b.reshape(y, shape_of(x)), spelling_of(x))


@imports("native_group_norm_backward")
def group_norm_backward(
    b: Call, grad: Value, x: Value, mean: Value, rstd: Value, weight: Value | None, *rest: Any
) -> list[Value | None]:
    """Computes in the iteration space of `group_norm`, with ATen's formulas: sums over a channel's pixels give all
    three gradients."""
    *_, groups, output_mask = rest
    space = _space(x, groups)
    pixels = [*range(3, len(space))]
    wide = opmath(spelling_of(x))
    grad, x = (b.convert(b.reshape(v, space), wide) for v in (grad, x))
    mean, rstd = (b.convert(b.reshape(v, [*space[:2], 1, *(1 for _ in pixels)]), wide) for v in (mean, rstd))
    total = b.reduce("sum", grad, pixels, keepdim=True)
    product = b.reduce("sum", b.pointwise("mul", grad, x), pixels, keepdim=True)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        results[0] = _group_norm_input(b, grad, x, mean, rstd, weight, (total, product))
    if output_mask[1]:
        centred = b.pointwise("sub", product, b.pointwise("mul", total, mean))
        results[1] = b.reduce("sum", b.pointwise("mul", centred, rstd), [0])
    if output_mask[2]:
        results[2] = b.reduce("sum", total, [0])
    metas = b.meta
    return [
        None if r is None else b.reshape(b.convert(r, types.SPELLING[meta.dtype]), sizes_of(meta))
        for r, meta in zip(results, metas, strict=True)
    ]


def _group_norm_input(
    b: GraphBuilder, grad: Value, x: Value, mean: Value, rstd: Value, weight: Value | None, sums: tuple[Value, Value]
) -> Value:
    """The gradient of the input. `sums`: `grad`, and `grad` times `x`, each summed over a channel's pixels."""
    if weight is not None:
        along = b.reshape(b.convert(weight, spelling_of(x)), _dims_of_parameters(shape_of(x)))
        grad = b.pointwise("mul", grad, along)
        sums = (b.pointwise("mul", sums[0], along), b.pointwise("mul", sums[1], along))
    total, product = (b.reduce("sum", v, [2], keepdim=True) for v in sums)
    count = math.prod(shape_of(x)[2:])
    less = b.pointwise("mul", b.pointwise("sub", product, b.pointwise("mul", total, mean)), b.pointwise("square", rstd))
    slope = b.with_number("div", b.pointwise("mul", less, rstd), count)
    level = b.with_number("div", b.pointwise("mul", total, rstd), count)
    own = b.pointwise("sub", b.pointwise("mul", grad, rstd), b.pointwise("mul", b.pointwise("sub", x, mean), slope))
    return b.pointwise("sub", own, level)


def _check_loss(x: Value, weight: Any) -> None:
    if weight is not None:
        raise Decline("class weights given")
    if _rank(x) != 2:
        raise Decline("single sample, without a batch dim")


@imports("nll_loss_forward")
def nll_loss(b: Call, x: Value, target: Value, weight: Any, reduction: int, ignore_index: int) -> list[Value]:
    _check_loss(x, weight)
    loss, total = b.types
    op = normalisation.NllLoss(x, target, reduction, ignore_index, loss, total)
    return list(op.operation.results)


@imports("nll_loss_backward")
def nll_loss_backward(b: Call, grad: Value, x: Value, target: Value, *rest: Any) -> Value:
    weight, reduction, ignore_index, total = rest
    _check_loss(x, weight)
    op = normalisation.NllLossBackward(grad, target, total, reduction, ignore_index, x.type)
    return op.result
