"""Folds scales and shifts of the channels of a convolution's result into its weight and bias.

    %1 = cuesta.convolution(%x, %w)             %w1 = %w * (%rstd * %g)
    %2 = (%1 - %mean) * %rstd * %g + %b    →    %b1 = -%mean * %rstd * %g + %b
    %3 = cuesta.relu(%2)                        %2 = cuesta.convolution(%x, %w1, %b1)
                                                %3 = cuesta.relu(%2)

A batch norm in eval is such a scale and shift, as is any other op with one number per channel. The weight is
computed in f32 and rounded once; so is the bias. The pass folds only where cuDNN then takes bias, residual and relu
into the convolution, on CUDA: elsewhere the kernel after the convolution moves the same bytes without folding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import Convolution
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.analysis.match import only_user, wide
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, remark, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import epilogue_of, moved_bytes, rebuilt, refusal

_B = GraphBuilder()
#: Op → its row, for the ops that scale and shift.
_SCALE_OR_SHIFT = {pointwise.OPS[name].OPERATION_NAME: name for name in ("add", "sub", "mul", "div")}


@dataclass(frozen=True)
class _Step:
    """`name` is add, sub, mul or div; `operand` holds one number per channel, or a single number."""

    name: str
    operand: ir.Value


def _steps(convolution: ir.Operation) -> tuple[ir.Value, list[_Step]]:
    """(the last value, in the convolution's type, of the chain of steps behind it; the steps up to this value)."""
    (value,) = convolution.results
    best: tuple[ir.Value, list[_Step]] = (value, [])
    steps: list[_Step] = []
    while (user := only_user(value)) is not None:
        step = _step(user, value)
        if step is not None:
            steps.append(step)
        elif not Convert.matches(user) or wide(user.results[0]) != wide(value):
            break
        (value,) = user.results
        if value.type == convolution.results[0].type:
            best = (value, list(steps))
    return best


def _step(op: ir.Operation, value: ir.Value) -> _Step | None:
    name = _SCALE_OR_SHIFT.get(op.name)
    if name is None or shape_of(op.results[0]) != shape_of(value):
        return None
    x, y = op.operands
    if x != value and name in ("add", "mul"):
        x, y = y, x
    channels = shape_of(value)[1]
    padded = (1,) * (len(shape_of(value)) - len(shape_of(y))) + shape_of(y)
    by_channel = padded[1] in (1, channels) and all(size == 1 for d, size in enumerate(padded) if d != 1)
    return _Step(name, y) if x == value and by_channel else None


def _fold(convolution: ir.Operation) -> None:
    last, steps = _steps(convolution)
    epilogue = epilogue_of(last)
    if not steps or epilogue is None:
        return
    (result,) = convolution.results
    reason = refusal(convolution)
    if reason is None and spelling_of(result) == "f16":
        # A weight times a small scale may fall below f16's normal numbers; bf16 has f32's range.
        reason = "scaled weights may leave the range of f16"
    if reason is not None:
        remark(convolution, epilogue.relu, reason, moved_bytes(convolution))
        return
    with ir.InsertionPoint(last.owner), named("convolution", last.owner):
        replace(last.owner, [_folded(convolution, steps)])


def _folded(convolution: ir.Operation, steps: list[_Step]) -> ir.Value:
    """The convolution with the steps folded in; scale and shift are computed in the type that arithmetic is done in."""
    _, weight, *bias = convolution.operands
    kind = opmath(spelling_of(weight))
    channels = shape_of(weight)[0]
    scale: ir.Value | None = None
    shift = _column(bias[0], kind) if bias else None
    for step in steps:
        number = _column(step.operand, kind)
        if step.name in ("add", "sub"):
            number = _B.pointwise("neg", number) if step.name == "sub" and shift is None else number
            shift = number if shift is None else _B.pointwise(step.name, shift, number)
        else:
            first = scale is None and step.name == "mul"
            scale = number if first else _B.pointwise(step.name, scale or _B.constant(1, kind), number)
            shift = None if shift is None else _B.pointwise(step.name, shift, number)
    if scale is not None:
        factors = _B.reshape(_B.expand(scale, [channels]), [channels, *[1] * (len(shape_of(weight)) - 1)])
        product = _B.pointwise("mul", _B.convert(weight, kind), factors)
        weight = _B.convert(product, spelling_of(weight))
    offset = None if shift is None else _B.convert(_B.expand(shift, [channels]), spelling_of(weight))
    return rebuilt(convolution, weight, offset)


def _column(value: ir.Value, kind: str) -> ir.Value:
    """One number per channel, or a single number, as a tensor of one dim in type `kind`."""
    return _B.reshape(_B.convert(value, kind), [math.prod(shape_of(value))])


@register_pass("fold-batch-norm")
class FoldBatchNorm(Pass):
    """Folds scales and shifts of channels into the convolutions before them."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        with module.context:
            for function in functions(module):
                for op in list(function.regions[0].blocks[0].operations):
                    if Convolution.matches(op.operation):
                        _fold(op.operation)
        erase_dead(module)
