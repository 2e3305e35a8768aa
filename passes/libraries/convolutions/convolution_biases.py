"""Takes the bias out of the library's convolutions on a GPU, and its gradient out of their gradients.

    %2 = cuesta.convolution(%x, %w, %bias)    →   %1 = cuesta.convolution(%x, %w)
                                                  %2 = %1 + %bias
    aten.convolution_backward(%g, …) [1, 1, 1]  →   aten.convolution_backward(%g, …) [1, 1, 0], cuesta.sum(%g)

cuDNN adds no bias: ATen adds it in a kernel of its own, whose loads are not vectorised, and sums the gradient in
another. As ops of ours both join the kernels around them. In eager's convolution the sum is rounded before the bias is
added as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.aten import Call
from cuesta.dialects.cuesta.contraction import Convolution
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import rebuilt
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    completed,
    given_gradients,
    gradient_arguments,
)

_B = GraphBuilder()
_BIAS = 2


@register_pass("convolution-biases")
class ConvolutionBiases(Pass):
    """Adds biases of convolutions, and sums their gradients, in kernels of ours, on a GPU."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).gpu:
            rewrite_ops(module, {Convolution.OPERATION_NAME: _convolution, Call.OPERATION_NAME: _gradients})


def _convolution(op: ir.Operation) -> Sequence[ir.Value] | None:
    _, weight, *bias = op.operands
    if not bias or not Convolution.cudnn.is_on(op):
        return None
    sum_ = rebuilt(op, weight, None)
    _, channels, *places = shape_of(sum_)
    return [_B.pointwise("add", sum_, _B.reshape(bias[0], [1, channels, *[1] * len(places)]))]


def _gradients(op: ir.Operation) -> Sequence[ir.Value] | None:
    if not are_gradients(op) or _BIAS not in (stands := given_gradients(op)):
        return None
    gradient = gradient_arguments(op)[0]
    rank = len(shape_of(gradient))
    bias = op.results[stands.index(_BIAS)]
    total = _B.reduce("sum", gradient, [0, *range(2, rank)])
    return completed(op, {_BIAS: _B.convert(total, spelling_of(bias))})
