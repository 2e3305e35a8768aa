"""Defines softmax, norms and losses, forward and backward, which stay single ops until `decompose`."""

from typing import Any, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operation, reference, verifier
from cuesta.sizes import Number

Tensors: TypeAlias = list[torch.Tensor]
aten = torch.ops.aten


class Softmax(Operation, name="softmax", traits=[ext.Pure]):
    """exp(x) over its sum along `dim`. `safe` is 1 if a row of only -inf gives zeros instead of NaN."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    safe: ir.IntegerAttr
    result: ext.Result[Any]


class LogSoftmax(Operation, name="log_softmax", traits=[ext.Pure]):
    """The logarithm of softmax along `dim`."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class SoftmaxBackward(Operation, name="softmax_backward", traits=[ext.Pure]):
    """Gradient of softmax along `dim` from the output's gradient and the output."""

    grad: ext.Operand[Any]
    y: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class LogSoftmaxBackward(Operation, name="log_softmax_backward", traits=[ext.Pure]):
    """Gradient of log_softmax along `dim` from the output's gradient and the output."""

    grad: ext.Operand[Any]
    y: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class LayerNorm(Operation, name="layer_norm", traits=[ext.Pure]):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last `rank` dims.

    Results: y, mean and 1/sqrt(var + eps), the last two with the normalised dims kept as 1.
    """

    x: ext.Operand[Any]
    weight: ext.Operand[Any]
    bias: ext.Operand[Any]
    rank: ir.IntegerAttr
    eps: ir.FloatAttr
    y: ext.Result[Any]
    mean: ext.Result[Any]
    rstd: ext.Result[Any]


class LayerNormBackward(Operation, name="layer_norm_backward", traits=[ext.Pure]):
    """The gradients of x, weight and bias from the output's gradient and the forward op's results."""

    grad: ext.Operand[Any]
    x: ext.Operand[Any]
    mean: ext.Operand[Any]
    rstd: ext.Operand[Any]
    weight: ext.Operand[Any]
    rank: ir.IntegerAttr
    dx: ext.Result[Any]
    dweight: ext.Result[Any]
    dbias: ext.Result[Any]


class NllLoss(Operation, name="nll_loss", traits=[ext.Pure]):
    """Negative log likelihood: x [N, C] and target [N], `reduction` 0 none, 1 mean, 2 sum.

    Results: the loss and the total weight, the count of targets other than `ignore_index`.
    """

    x: ext.Operand[Any]
    target: ext.Operand[Any]
    reduction: ir.IntegerAttr
    ignore_index: ir.IntegerAttr
    loss: ext.Result[Any]
    total: ext.Result[Any]


class NllLossBackward(Operation, name="nll_loss_backward", traits=[ext.Pure]):
    """Gradient of x [N, C] from the loss's gradient, the target [N] and the total weight."""

    grad: ext.Operand[Any]
    target: ext.Operand[Any]
    total: ext.Operand[Any]
    reduction: ir.IntegerAttr
    ignore_index: ir.IntegerAttr
    result: ext.Result[Any]


def normalised_shape(op: ir.Operation) -> list[Number]:
    """The shape that a norm's weight has."""
    shape = types.shape_of(op.operands[0])
    return list(shape[len(shape) - op.attributes["rank"].value :])


@reference("softmax")
def _softmax(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    function = aten._safe_softmax if op.attributes["safe"].value else torch.softmax
    result: torch.Tensor = function(xs[0], op.attributes["dim"].value)
    return result


@reference("log_softmax")
def _log_softmax(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    return torch.log_softmax(xs[0], op.attributes["dim"].value)


@reference("softmax_backward")
def _softmax_backward(op: ir.Operation, xs: Tensors) -> Any:
    return aten._softmax_backward_data(*xs, op.attributes["dim"].value, xs[0].dtype)


@reference("log_softmax_backward")
def _log_softmax_backward(op: ir.Operation, xs: Tensors) -> Any:
    return aten._log_softmax_backward_data(*xs, op.attributes["dim"].value, xs[0].dtype)


@reference("layer_norm")
def _layer_norm(op: ir.Operation, xs: Tensors) -> Any:
    return aten.native_layer_norm(xs[0], normalised_shape(op), *xs[1:], op.attributes["eps"].value)


@reference("layer_norm_backward")
def _layer_norm_backward(op: ir.Operation, xs: Tensors) -> Any:
    grad, x, mean, rstd, weight = xs
    return aten.native_layer_norm_backward(
        grad, x, normalised_shape(op), mean, rstd, weight, torch.zeros_like(weight), [True] * 3
    )


@reference("nll_loss")
def _nll_loss(op: ir.Operation, xs: Tensors) -> Any:
    return aten.nll_loss_forward(*xs, None, op.attributes["reduction"].value, op.attributes["ignore_index"].value)


@reference("nll_loss_backward")
def _nll_loss_backward(op: ir.Operation, xs: Tensors) -> Any:
    grad, target, total = xs
    x = torch.empty(types.static_shape(op.results[0]), dtype=grad.dtype)
    reduction, ignore = op.attributes["reduction"].value, op.attributes["ignore_index"].value
    return aten.nll_loss_backward(grad, x, target, None, reduction, ignore, total)


@verifier("softmax")
@verifier("log_softmax")
@verifier("softmax_backward")
@verifier("log_softmax_backward")
def _verify_rowwise(op: ir.Operation) -> str | None:
    shape, dim = types.shape_of(op.operands[0]), op.attributes["dim"].value
    if not 0 <= dim < max(len(shape), 1):
        return f"dim {dim} is outside [0, {len(shape)})"
    return None if types.shape_of(op.results[0]) == shape else "the result must have the operand's shape"


@verifier("layer_norm")
@verifier("layer_norm_backward")
def _verify_layer_norm(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    if not 1 <= op.attributes["rank"].value <= rank:
        return f"rank {op.attributes['rank'].value} is outside [1, {rank}]"
    shape = tuple(normalised_shape(op))
    parameters = list(op.operands)[1:] if op.name == "cuesta.layer_norm" else [op.operands[4]]
    wrong = [v for v in parameters if types.shape_of(v) != shape]
    return f"weight and bias must have the shape {list(shape)}" if wrong else None
