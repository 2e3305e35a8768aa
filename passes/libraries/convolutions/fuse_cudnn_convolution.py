"""Fuses bias, residual and relu into cuDNN's convolution.

    %1 = cuesta.convolution(%x, %w, %b)         %1 = cuesta.convolution(%x, %w, %b)
    %2 = %1 + %z                            →
    %3 = cuesta.relu(%2)                        %3 = aten.call(%x, %w, %z, %b) {cudnn_convolution_add_relu}

If the residual is a convolution with a bias, that bias moves to the fused convolution: ATen adds the bias of a plain
convolution in a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import opmath, row_major, shape_of, spelling_of
from cuesta.passes.analysis.match import only_user, wide
from cuesta.passes.infra.graph_rewrite import erase_dead, remark, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import (
    Epilogue,
    epilogue_of,
    moved_bytes,
    rebuilt,
    refusal,
)

_B = GraphBuilder()
_REASON = "convolutions run in the library"


def _relu(op: ir.Operation) -> Sequence[ir.Value] | None:
    (value,) = op.operands
    total = maker(value, pointwise.OPS["add"])
    for candidate in [value] if total is None else total.operands:
        convolution = maker(candidate, Convolution)
        epilogue = None if convolution is None else epilogue_of(candidate)
        if convolution is None or epilogue is None:
            continue
        reason = refusal(convolution)
        if reason is None:
            return _fused(convolution, epilogue)
        remark(convolution, op, reason, moved_bytes(convolution))
    return None


def _fused(convolution: ir.Operation, epilogue: Epilogue) -> Sequence[ir.Value]:
    x, weight, *rest = convolution.operands
    bias = rest[0] if rest else None
    (result,) = convolution.results
    seen = (OPERAND_STRIDES.find(convolution) or [row_major(shape_of(v)) for v in (x, weight)])[:2]
    (made,) = RESULT_STRIDES.find(convolution) or [row_major(shape_of(result))]
    stride, padding, dilation, *_, groups = convolution_arguments(convolution)
    places = [stride, padding, dilation, groups]
    args: list[Any] = [x, weight]
    if epilogue.residual is not None:
        residual, bias = _without_bias(epilogue.residual, bias)
        args += [residual, None]
        seen = [*seen, made]
    results = [(shape_of(result), spelling_of(result), made)]
    seen = [*seen, [1]] if bias is not None else seen
    name = "relu" if epilogue.residual is None else "add_relu"
    return _B.aten(f"aten.cudnn_convolution_{name}.default", [*args, bias, *places], {}, results, _REASON, seen)


def _without_bias(residual: ir.Value, bias: ir.Value | None) -> tuple[ir.Value, ir.Value | None]:
    """(the residual without its bias, `bias` plus that bias), if the residual has a bias and no other users."""
    op = maker(residual, Convolution)
    if op is None or len(op.operands) < 3 or only_user(residual) is None:
        return residual, bias
    _, weight, own = op.operands
    bare = rebuilt(op, weight, None)
    if bias is None:
        return bare, own
    # Added before they are rounded, if fold-batch-norm has just made them.
    kind = opmath(spelling_of(own))
    total = _B.pointwise("add", _B.convert(wide(bias), kind), _B.convert(wide(own), kind))
    return bare, _B.convert(total, spelling_of(own))


@register_pass("fuse-cudnn-convolution")
class FuseCudnnConvolution(Pass):
    """Fuses a convolution and its epilogue into one call of cuDNN, on CUDA."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        rewrite_ops(module, {pointwise.OPS["relu"].OPERATION_NAME: _relu})
        erase_dead(module)
