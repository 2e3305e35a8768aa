"""Decomposes whole ops into pointwise ops and reductions, which fusion puts back into one kernel.

    %1 = cuesta.softmax(%0) {dim = 1}   →   %m = cuesta.amax(%0) {dims = [1]}
                                            %e = cuesta.exp(%0 - %m)
                                            %1 = %e * (1 / cuesta.sum(%e) {dims = [1]})

Narrow floats are computed in f32 from end to end, as ATen's kernels do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import host, maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.indexing import ScatterOne
from cuesta.dialects.cuesta.normalisation import (
    LayerNorm,
    LayerNormBackward,
    LogSoftmax,
    LogSoftmaxBackward,
    LogSumExp,
    NllLoss,
    NllLossBackward,
    Softmax,
    SoftmaxBackward,
    SoftmaxGradient,
)
from cuesta.dialects.cuesta.random import Dropout
from cuesta.dialects.cuesta.shape import Constant
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import is_float, opmath, row_major, shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import Rule, erase_dead, is_unused, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

Values = Sequence[ir.Value | None]
_B = GraphBuilder()
#: Op → its row.
_DIVISIONS = {
    pointwise.OPS[name].OPERATION_NAME: name for name in ("floor_divide", "trunc_divide", "remainder", "fmod")
}


def _wide(*values: ir.Value) -> list[ir.Value]:
    """The values, converted to the type in which arithmetic on them is done."""
    return [_B.convert(v, opmath(spelling_of(v))) for v in values]


def _narrow(value: ir.Value, like: ir.Value) -> ir.Value:
    return _B.convert(value, spelling_of(like))


def softmax(op: ir.Operation) -> Values:
    (x,) = _wide(op.operands[0])
    dim, safe = [Softmax.dim.of(op)], Softmax.safe.of(op)
    top = _B.reduce("amax", x, dim, keepdim=True)
    shift = top
    if safe:
        # For a row of nothing but -inf, subtract 0, so that its exponentials are zeros and not NaN.
        shift = _B.where(_B.with_number("eq", top, -math.inf), _B.constant(0, spelling_of(x)), top)
    e = _B.pointwise("exp", _B.pointwise("sub", x, shift))
    total = _B.reduce("sum", e, dim, keepdim=True)
    if safe:
        total = _B.where(_B.with_number("eq", top, -math.inf), _B.constant(1, spelling_of(x)), total)
    return [_narrow(_B.pointwise("mul", e, _B.pointwise("reciprocal", total)), op.results[0])]


def log_softmax(op: ir.Operation) -> Values:
    (x,) = _wide(op.operands[0])
    dim = [LogSoftmax.dim.of(op)]
    shifted = _B.pointwise("sub", x, _B.reduce("amax", x, dim, keepdim=True))
    total = _B.reduce("sum", _B.pointwise("exp", shifted), dim, keepdim=True)
    return [_narrow(_B.pointwise("sub", shifted, _B.pointwise("log", total)), op.results[0])]


def logsumexp(op: ir.Operation) -> Values:
    (x,) = _wide(op.operands[0])
    dims = LogSumExp.dims.of(op)
    top = _B.reduce("amax", x, dims, keepdim=True)
    # Of a row whose maximum is infinite, subtract 0: the row's result is that maximum, and inf - inf is NaN.
    infinite = _B.with_number("eq", _B.pointwise("abs", top), math.inf)
    shift = _B.where(infinite, _B.constant(0, spelling_of(x)), top)
    total = _B.reduce("sum", _B.pointwise("exp", _B.pointwise("sub", x, shift)), dims, keepdim=True)
    wide = _B.pointwise("add", _B.pointwise("log", total), shift)
    return [_narrow(_B.reshape(wide, shape_of(op.results[0])), op.results[0])]


def softmax_backward(op: ir.Operation) -> Values:
    grad, y = _wide(*op.operands)
    total = _B.reduce("sum", _B.pointwise("mul", grad, y), [SoftmaxGradient.dim.of(op)], keepdim=True)
    return [_narrow(_B.pointwise("mul", y, _B.pointwise("sub", grad, total)), op.results[0])]


def log_softmax_backward(op: ir.Operation) -> Values:
    grad, y = _wide(*op.operands)
    total = _B.reduce("sum", grad, [SoftmaxGradient.dim.of(op)], keepdim=True)
    correction = _B.pointwise("mul", _B.pointwise("exp", y), total)
    return [_narrow(_B.pointwise("sub", grad, correction), op.results[0])]


def _last_dims(x: ir.Value, count: int) -> list[int]:
    rank = len(shape_of(x))
    return list(range(rank - count, rank))


def _is_constant(value: ir.Value, number: float) -> bool:
    op = maker(value, Constant)
    return op is not None and Constant.value.of(op) == number


def layer_norm(op: ir.Operation) -> Values:
    x, weight, bias = _wide(*op.operands)
    dims = _last_dims(x, LayerNorm.rank.of(op))
    mean = _B.mean(x, dims, keepdim=True)
    centred = _B.pointwise("sub", x, mean)
    var = _B.mean(_B.pointwise("square", centred), dims, keepdim=True)
    rstd = _B.pointwise("rsqrt", _B.with_number("add", var, LayerNorm.eps.of(op)))
    y = _B.pointwise("mul", centred, rstd)
    if not _is_constant(op.operands[1], 1):
        y = _B.pointwise("mul", y, weight)
    if not _is_constant(op.operands[2], 0):
        y = _B.pointwise("add", y, bias)
    return [_narrow(v, r) for v, r in zip((y, mean, rstd), op.results, strict=True)]


def layer_norm_backward(op: ir.Operation) -> Values:
    grad, x, mean, rstd, weight = _wide(*op.operands)
    dims = _last_dims(x, LayerNormBackward.rank.of(op))
    normalised = _B.pointwise("mul", _B.pointwise("sub", x, mean), rstd)
    results: list[ir.Value | None] = [None, None, None]
    dx, dweight, dbias = op.results
    if not is_unused(dx):
        g = grad if _is_constant(op.operands[4], 1) else _B.pointwise("mul", grad, weight)
        mean_g = _B.mean(g, dims, keepdim=True)
        mean_gx = _B.mean(_B.pointwise("mul", g, normalised), dims, keepdim=True)
        inner = _B.pointwise("sub", _B.pointwise("sub", g, mean_g), _B.pointwise("mul", normalised, mean_gx))
        results[0] = _narrow(_B.pointwise("mul", inner, rstd), dx)
    outer = list(range(dims[0]))
    if not is_unused(dweight):
        results[1] = _narrow(_B.reduce("sum", _B.pointwise("mul", grad, normalised), outer), dweight)
    if not is_unused(dbias):
        results[2] = _narrow(_B.reduce("sum", grad, outer), dbias)
    return results


def _one_hot(target: ir.Value, classes: Number, ignored: int) -> tuple[ir.Value, ir.Value]:
    """(class == target [N, C], target != ignored [N, 1])."""
    column = _B.convert(_B.reshape(target, [shape_of(target)[0], 1]), "i64")
    classes_row = _B.ramp(classes)
    valid = _B.with_number("ne", column, ignored)
    return _B.pointwise("eq", classes_row, column), valid


def _check_classes(target: ir.Value, valid: ir.Value, classes: Number) -> None:
    """Makes a target that is no class an error, as in eager; the masked sum alone would count it as 0."""
    column = _B.reshape(_B.convert(target, "i64"), shape_of(valid))
    outside = _B.pointwise("logical_or", _B.with_number("lt", column, 0), _B.with_number("ge", column, classes))
    bad = _B.reduce("any", _B.pointwise("logical_and", valid, outside), [0, 1])
    message = f"a target is out of bounds: there are {classes} classes"
    host.Check.build([bad], message=message)


def nll_loss(op: ir.Operation, checks: bool = True) -> Values:
    (x,) = _wide(op.operands[0])
    samples, classes = shape_of(x)
    hit, valid = _one_hot(op.operands[1], classes, NllLoss.ignore_index.of(op))
    zero = _B.constant(0, spelling_of(x))
    if checks:
        _check_classes(op.operands[1], valid, classes)
    # A masked sum reads the whole row once more. Where a fused log_softmax computes the row, it is in the
    # cache, and the log-probabilities need not be written to memory at all.
    picked = _B.reduce("sum", _B.where(hit, x, zero), [1], keepdim=True)
    each = _B.where(valid, _B.pointwise("neg", picked), zero)
    loss, total = op.results
    count = _B.reduce("sum", _B.convert(valid, spelling_of(x)), [0, 1])
    reduction = NllLoss.reduction.of(op)
    if reduction == 0:
        return [_narrow(_B.reshape(each, [samples]), loss), _B.constant(0, spelling_of(total))]
    value = _B.reduce("sum", each, [0, 1])
    if reduction == 1:
        value = _B.pointwise("div", value, count)
    return [_narrow(value, loss), _narrow(count, total)]


def nll_loss_backward(op: ir.Operation) -> Values:
    grad, total = _wide(op.operands[0], op.operands[2])
    (result,) = op.results
    hit, valid = _one_hot(op.operands[1], shape_of(result)[1], NllLossBackward.ignore_index.of(op))
    reduction = NllLossBackward.reduction.of(op)
    each = _B.pointwise("neg", grad)
    if reduction == 1:
        each = _B.pointwise("div", each, total)
    if reduction == 0:
        each = _B.reshape(each, [shape_of(grad)[0], 1])
    chosen = _B.pointwise("logical_and", hit, valid)
    return [_narrow(_B.where(chosen, each, _B.constant(0, spelling_of(grad))), result)]


def scatter_one(op: ir.Operation, checks: bool = True) -> Values:
    """Selects for each element of x: `value` where its position along `dim` is its line's index, else the element."""
    x, index, value = op.operands
    dim, sizes = ScatterOne.dim.of(op), shape_of(x)
    wide = _B.convert(index, "i64")
    if checks:
        outside = _B.pointwise("logical_or", _B.with_number("lt", wide, 0), _B.with_number("ge", wide, sizes[dim]))
        bad = _B.reduce("any", outside, list(range(len(sizes))))
        message = f"index out of range: dim {dim} has size {sizes[dim]}"
        host.Check.build([bad], message=message)
    return [_B.where(_B.pointwise("eq", _B.along(sizes, dim), wide), value, x)]


def divide_integers(op: ir.Operation, checks: bool = True) -> Values | None:
    """Divides integers by 1 in place of divisors at which processors trap: 0, which is an error as in eager, and -1, by
    which the lowest number has no quotient. None for floats, for other constant divisors, and without `checks`."""
    x, y = op.operands
    constant = maker(y, Constant)
    is_harmless = constant is not None and Constant.value.of(constant) not in (0, -1)
    if is_float(spelling_of(y)) or is_harmless or not checks:
        return None
    name = _DIVISIONS[op.name]
    is_zero = _B.with_number("eq", y, 0)
    bad = _B.reduce("any", is_zero, list(range(len(shape_of(y)))))
    host.Check.build([bad], message="ZeroDivisionError", raises="RuntimeError")
    one = _B.constant(1, spelling_of(y))
    if spelling_of(y) == "ui8":
        return [_B.pointwise(name, x, _B.where(is_zero, one, y))]
    negative = _B.with_number("eq", y, -1)
    result = _B.pointwise(name, x, _B.where(_B.pointwise("logical_or", is_zero, negative), one, y))
    if name in ("remainder", "fmod"):
        return [result]
    return [_B.where(negative, _B.pointwise("neg", x), result)]


def dropout(op: ir.Operation) -> Values:
    """Has ATen draw the mask, as ATen's own dropout does; the rest is pointwise."""
    (x,), p = op.operands, Dropout.p.of(op)
    sizes = shape_of(x)
    like = _B.expand(_B.constant(0, "i1"), sizes)
    (mask,) = _B.aten(
        "aten.bernoulli.p",
        [like, 1.0 - p],
        {},
        [(sizes, "i1", row_major(sizes))],
        "random numbers come from torch's generator",
    )
    (wide,) = _wide(x)
    kept = _B.pointwise("mul", wide, _B.convert(mask, spelling_of(wide)))
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return [_narrow(_B.with_number("mul", kept, scale), x), mask]


@register_pass("decompose")
@dataclass(frozen=True)
class Decompose(Pass):
    """Decomposes norms, softmax, losses, dropout, divisions of integers and writes of one element per line."""

    #: Whether to check at run time what eager checks (that a target is a class).
    checks: bool = True

    def run(self, module: ir.Module) -> None:
        rules: dict[str, Rule] = {
            Softmax.OPERATION_NAME: softmax,
            LogSoftmax.OPERATION_NAME: log_softmax,
            LogSumExp.OPERATION_NAME: logsumexp,
            SoftmaxBackward.OPERATION_NAME: softmax_backward,
            LogSoftmaxBackward.OPERATION_NAME: log_softmax_backward,
            LayerNorm.OPERATION_NAME: layer_norm,
            LayerNormBackward.OPERATION_NAME: layer_norm_backward,
            NllLoss.OPERATION_NAME: functools.partial(nll_loss, checks=self.checks),
            NllLossBackward.OPERATION_NAME: nll_loss_backward,
            ScatterOne.OPERATION_NAME: functools.partial(scatter_one, checks=self.checks),
            Dropout.OPERATION_NAME: dropout,
            **dict.fromkeys(_DIVISIONS, functools.partial(divide_integers, checks=self.checks)),
        }
        rewrite_ops(module, rules)
        erase_dead(module)
