"""Defines softmax, norms and losses, forward and backward, which stay single ops until `decompose`."""

from typing import Any, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import Flag, Float, Int, Ints
from cuesta.sizes import Number

Tensors: TypeAlias = list[torch.Tensor]
aten = torch.ops.aten


class Softmax(Operation, name="softmax", traits=[ext.Pure]):
    """exp(x) over its sum along `dim`. `safe` is 1 if a row of only -inf gives zeros instead of NaN."""

    x: Operand
    dim: Int
    safe: Flag
    result: Result


class LogSoftmax(Operation, name="log_softmax", traits=[ext.Pure]):
    """The logarithm of softmax along `dim`."""

    x: Operand
    dim: Int
    result: Result


class LogSumExp(Operation, name="logsumexp", traits=[ext.Pure]):
    """log(Σ exp(x)) along `dims`, which the result lacks; -inf where x is nothing but -inf."""

    x: Operand
    dims: Ints
    result: Result


class SoftmaxGradient(Operation):
    """A gradient along `dim` from the output's gradient and the output."""

    grad: Operand
    y: Operand
    dim: Int
    result: Result


class SoftmaxBackward(SoftmaxGradient, name="softmax_backward", traits=[ext.Pure]):
    """Gradient of softmax."""


class LogSoftmaxBackward(SoftmaxGradient, name="log_softmax_backward", traits=[ext.Pure]):
    """Gradient of log_softmax."""


class LayerNorm(Operation, name="layer_norm", traits=[ext.Pure]):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last `rank` dims.

    Results: y, mean and 1/sqrt(var + eps), the last two with the normalised dims kept as 1.
    """

    x: Operand
    weight: Operand
    bias: Operand
    rank: Int
    eps: Float
    y: Result
    mean: Result
    rstd: Result


class LayerNormBackward(Operation, name="layer_norm_backward", traits=[ext.Pure]):
    """The gradients of x, weight and bias from the output's gradient and the forward op's results."""

    grad: Operand
    x: Operand
    mean: Operand
    rstd: Operand
    weight: Operand
    rank: Int
    dx: Result
    dweight: Result
    dbias: Result


class NllLoss(Operation, name="nll_loss", traits=[ext.Pure]):
    """Negative log likelihood: x [N, C] and target [N], `reduction` 0 none, 1 mean, 2 sum.

    Results: the loss and the total weight, the count of targets other than `ignore_index`.
    """

    x: Operand
    target: Operand
    reduction: Int
    ignore_index: Int
    loss: Result
    total: Result


class NllLossBackward(Operation, name="nll_loss_backward", traits=[ext.Pure]):
    """Gradient of x [N, C] from the loss's gradient, the target [N] and the total weight."""

    grad: Operand
    target: Operand
    total: Operand
    reduction: Int
    ignore_index: Int
    result: Result


def normalised_shape(op: ir.Operation) -> list[Number]:
    """The shape that a norm's weight has."""
    shape = types.shape_of(op.operands[0])
    return list(shape[len(shape) - LayerNorm.rank.of(op) :])


@reference(Softmax)
def _softmax(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    function = aten._safe_softmax if Softmax.safe.of(op) else torch.softmax
    result: torch.Tensor = function(xs[0], Softmax.dim.of(op))
    return result


@reference(LogSoftmax)
def _log_softmax(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return torch.log_softmax(xs[0], LogSoftmax.dim.of(op))


@reference(LogSumExp)
def _logsumexp(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return torch.logsumexp(xs[0], LogSumExp.dims.of(op))


@reference(SoftmaxBackward)
def _softmax_backward(op: ir.Operation, xs: Tensors) -> Any:
    return aten._softmax_backward_data(*xs, SoftmaxGradient.dim.of(op), xs[0].dtype)


@reference(LogSoftmaxBackward)
def _log_softmax_backward(op: ir.Operation, xs: Tensors) -> Any:
    return aten._log_softmax_backward_data(*xs, SoftmaxGradient.dim.of(op), xs[0].dtype)


@reference(LayerNorm)
def _layer_norm(op: ir.Operation, xs: Tensors) -> Any:
    return aten.native_layer_norm(xs[0], normalised_shape(op), *xs[1:], LayerNorm.eps.of(op))


@reference(LayerNormBackward)
def _layer_norm_backward(op: ir.Operation, xs: Tensors) -> Any:
    grad, x, mean, rstd, weight = xs
    return aten.native_layer_norm_backward(
        grad, x, normalised_shape(op), mean, rstd, weight, torch.zeros_like(weight), [True] * 3
    )


@reference(NllLoss)
def _nll_loss(op: ir.Operation, xs: Tensors) -> Any:
    return aten.nll_loss_forward(*xs, None, NllLoss.reduction.of(op), NllLoss.ignore_index.of(op))


@reference(NllLossBackward)
def _nll_loss_backward(op: ir.Operation, xs: Tensors) -> Any:
    grad, target, total = xs
    x = torch.empty(types.static_shape(op.results[0]), dtype=grad.dtype)
    reduction, ignore = NllLossBackward.reduction.of(op), NllLossBackward.ignore_index.of(op)
    return aten.nll_loss_backward(grad, x, target, None, reduction, ignore, total)


@verifier(Softmax, LogSoftmax, SoftmaxBackward, LogSoftmaxBackward)
def _verify_rowwise(op: ir.Operation) -> str | None:
    shape, dim = types.shape_of(op.operands[0]), Softmax.dim.of(op)
    if not 0 <= dim < max(len(shape), 1):
        return f"dim {dim} is outside [0, {len(shape)})"
    return None if types.shape_of(op.results[0]) == shape else "the result must have the operand's shape"


@verifier(LogSumExp)
def _verify_logsumexp(op: ir.Operation) -> str | None:
    shape, dims = types.shape_of(op.operands[0]), LogSumExp.dims.of(op)
    if not {*dims} <= {*range(len(shape))}:
        return f"dims {dims} are not all in [0, {len(shape)})"
    right = types.shape_of(op.results[0]) == tuple(n for d, n in enumerate(shape) if d not in dims)
    return None if right else f"the result must have the operand's shape without the dims {dims}"


@verifier(LayerNorm, LayerNormBackward)
def _verify_layer_norm(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    if not 1 <= LayerNorm.rank.of(op) <= rank:
        return f"rank {LayerNorm.rank.of(op)} is outside [1, {rank}]"
    shape = tuple(normalised_shape(op))
    parameters = list(op.operands)[1:] if LayerNorm.matches(op) else [op.operands[4]]
    wrong = [v for v in parameters if types.shape_of(v) != shape]
    return f"weight and bias must have the shape {list(shape)}" if wrong else None
