"""Gives convolutions of one spatial dim a second one, of size 1, on CUDA and for oneDNN.

    cuesta.convolution(%x, %w) {stride = [2]}         cuesta.convolution(reshape(%x), reshape(%w)) {stride = [1, 2]}
      : tensor<8x64x500xbf16>                     →     : tensor<8x64x1x500xbf16>, reshaped back

ATen does the same, but makes the tensor row-major first. Here choose-layouts may have it in channels_last, where
cuDNN and oneDNN convert nothing, a depthwise convolution becomes a kernel of ours on CUDA, and one with windows of one
element a product on a CPU. On one thread of an EPYC (Zen 5), in µs in bf16, row-major and channels_last: 1x128x3199,
3 places to 128, stride 2, 506 and 336; 1x1x16000, 10 places to 128, stride 5, 151 and 61; 1x80x1000, 3 places to 384,
532 and 404.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import on_tensor_cores
from cuesta.policy.convolution_layouts import moves_less_in_channels_last
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("widen-convolutions")
class WidenConvolutions(Pass):
    """Makes convolutions of one dim, if tensor cores or oneDNN compute them, convolutions of two."""

    def run(self, module: ir.Module) -> None:
        is_chosen = {"cuda": on_tensor_cores, "cpu": _by_onednn}.get(target_of(module).kind)
        if is_chosen is not None:
            rewrite_ops(module, {Convolution.OPERATION_NAME: lambda op: _widened(op) if is_chosen(op) else None})


def _by_onednn(op: ir.Operation) -> bool:
    """Whether oneDNN computes an op and moves less in channels_last, which a result that is returned is not given."""
    (result,) = op.results
    if not Convolution.onednn.is_on(op) or any(user.name == func.ReturnOp.OPERATION_NAME for user in users(result)):
        return False
    return moves_less_in_channels_last(*(_with_unit(shape_of(v)) for v in (*list(op.operands)[:2], result)))


def _widened(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,) = op.results
    traced, made = OPERAND_STRIDES.find(op), RESULT_STRIDES.find(op)
    if len(shape_of(result)) != 3 or traced is None or made is None:
        return None
    x, weight, *bias = op.operands
    stride, padding, dilation, transposed, output_padding, groups = convolution_arguments(op)
    wide = Convolution(
        *(_B.reshape(v, _with_unit(shape_of(v))) for v in (x, weight)),
        bias[0] if bias else None,
        *([1, *stride], [0, *padding], [1, *dilation], transposed, [0, *output_padding], groups),
        types.tensor(_with_unit(shape_of(result)), spelling_of(result)),
    )
    if Convolution.onednn.is_on(op):
        Convolution.onednn.mark(wide)
    else:
        Convolution.cudnn.put(wide, Convolution.cudnn.of(op))
    sizes = [shape_of(v) for v in (x, weight)]
    along = [_with_stride(n, own) for n, own in zip(sizes, traced[:2], strict=True)]
    OPERAND_STRIDES.put(wide, [*along, *traced[2:]])
    RESULT_STRIDES.put(wide, [_with_stride(shape_of(result), made[0])])
    return [_B.reshape(wide.results[0], shape_of(result))]


def _with_unit(sizes: Sequence[Number]) -> list[Number]:
    *outer, length = sizes
    return [*outer, 1, length]


def _with_stride(sizes: Sequence[Number], strides: Sequence[Number]) -> list[Number]:
    """The strides, with one for the dim of size 1."""
    *outer, step = strides
    return [*outer, sizes[-1] * step, step]
