"""Puts convolutions in channels_last where the library is faster in that layout.

    cuesta.convolution(%x, %w) {result_strides = [[3136, 49, 7, 1]]}   →   {result_strides = [[3136, 1, 448, 64]]}

cuDNN's fast kernels work in channels_last, and convert any other layout on every call. That holds where tensor cores
compute (`cudnn` on the op): bf16, f16, and f32 where torch allows TF32. In full f32, row-major is faster. Of grouped
convolutions, a few kinds are slow in channels_last (`policy/convolution_layouts.py`) and stay as they are.

oneDNN's kernels (`onednn` on the op) convert the images of a row-major call, there and back. In channels_last they
convert none, but ATen then wants the weight in channels_last too, and converts it unless its window is one element. So
each convolution gets the layout that moves less. A convolution that is to become a product of patches is left as it is.

Kernels follow the memory order of their operands, so only one kernel at each end of the network converts. The results
of a graph keep the layout that the caller asks for. So on a GPU a graph that returns most of its images row-major is
left as it is, and on a CPU a convolution whose result is returned row-major. What no convolution reads or makes, such
as the queries of attention, is no image. The tensors that a training step saves are asked for in channels_last
(`frontend/saved_layouts`), and the gradients of convolutions are computed in the layout of their images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects import types
from cuesta.dialects.aten import AtenCall, Call
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.cuesta.shape import Cat
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_function import STRIDES, result_attributes
from cuesta.dialects.host.packed_convolutions import PACKED_CONVOLUTIONS
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of
from cuesta.passes.analysis.layout import CHANNELS_LAST
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import on_tensor_cores
from cuesta.passes.libraries.convolutions.convolution_gradients import gradient_arguments
from cuesta.policy.convolution_layouts import (
    overruns_in_channels_last,
    slow_in_channels_last,
    suits_channels_last,
)
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number

#: Chooses, from the convolutions of a function, those to put in channels_last.
_Rule: TypeAlias = Callable[[func.FuncOp, list[ir.Operation]], list[ir.Operation]]
#: The strides of a tensor of these sizes.
_Layout: TypeAlias = Callable[[Sequence[Number]], list[Number]]

#: Calls into ATen whose results have the memory order of their first operand.
_FOLLOWS = frozenset({"aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default"})
_CONVOLUTION_GRADIENT = "aten.convolution_backward.default"
#: Calls for gradients, whose second operand is the images → how many of their operands get the images' layout.
_GRADIENTS = {
    _CONVOLUTION_GRADIENT: 3,
    "aten.max_pool2d_with_indices_backward.default": 3,
    "aten.avg_pool2d_backward.default": 2,
}
#: A graph that returns more than this many row-major images per chosen convolution is left as it is.
_RETURNED_SHARE = 0.5


def channels_last(sizes: Sequence[Number]) -> list[Number]:
    """The strides of an [N, C, H, W] tensor whose channels are contiguous, as torch computes them."""
    _, c, h, w = sizes
    return [c * h * w, 1, w * c, c]


@register_pass("choose-layouts")
class ChooseLayouts(Pass):
    """Chooses the memory order of convolutions."""

    def run(self, module: ir.Module) -> None:
        rule = {"cuda": _for_cudnn, "cpu": _for_onednn}.get(target_of(module).kind)
        if rule is None:
            return
        with module.context:
            for function in functions(module):
                _choose(function, rule)
                _gradients(function, rule is _for_onednn)


def _choose(function: func.FuncOp, rule: _Rule) -> None:
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    convolutions = [op for op in ops if Convolution.matches(op) and RESULT_STRIDES.is_on(op)]
    chosen = rule(function, [op for op in convolutions if len(shape_of(op.results[0])) == 4])
    for op in chosen:
        _set_strides(op, operands=2)
    # oneDNN's convolutions with packed weights work in this layout only.
    packed = [op for op in ops if _overload(op) in PACKED_CONVOLUTIONS]
    for op in packed:
        _set_strides(op, operands=len(op.operands) - 1)
    chosen = [*chosen, *packed]
    for op in ops:
        if _overload(op) in _FOLLOWS and _follows(op.operands[0], chosen):
            _set_strides(op, operands=1)


def _gradients(function: func.FuncOp, of_onednn: bool) -> None:
    """Puts gradients in channels_last if their images are. Most images are tensors that the forward graph saved.

    `of_onednn`: gradients that oneDNN cannot compute in channels_last become row-major, whatever layout their images
    have.
    """
    memory = MemoryOrder()
    for op in function.regions[0].blocks[0].operations:
        operands = _GRADIENTS.get(_overload(op))
        if operands is None or len(shape_of(op.operands[1])) != 4:
            continue
        if of_onednn and _overruns(op.operation):
            _set_strides(op.operation, operands, types.row_major)
        elif memory.order(op.operands[1]) == CHANNELS_LAST:
            _set_strides(op.operation, operands)


def _overruns(op: ir.Operation) -> bool:
    """Whether an op is a convolution's gradient that oneDNN can compute in row-major memory only."""
    if _overload(op) != _CONVOLUTION_GRADIENT:
        return False
    _, _, weight, _, *parameters, _ = gradient_arguments(op)
    return overruns_in_channels_last(shape_of(weight), parameters)


def _for_cudnn(function: func.FuncOp, convolutions: list[ir.Operation]) -> list[ir.Operation]:
    chosen = [op for op in convolutions if on_tensor_cores(op) and not _slow_in_channels_last(op)]
    read = {op.operands[0] for op in convolutions}
    row_major = sum(
        len(shape_of(value)) == 4
        and (value in read or _follows(value, convolutions))
        and not (strides and is_channels_last(shape_of(value), strides))
        for value, strides in _returned(function)
    )
    return chosen if row_major <= _RETURNED_SHARE * len(chosen) else []


def _slow_in_channels_last(op: ir.Operation) -> bool:
    return slow_in_channels_last(shape_of(op.operands[1]), Convolution.groups.of(op))


def _returned(function: func.FuncOp) -> list[tuple[ir.Value, Sequence[Number] | None]]:
    """The values that a function returns, each with the strides that are asked of it."""
    *_, end = function.regions[0].blocks[0].operations
    asked = [STRIDES.find_in(attributes) for attributes in result_attributes(function)]
    return list(zip(end.operands, asked, strict=True))


def _for_onednn(function: func.FuncOp, convolutions: list[ir.Operation]) -> list[ir.Operation]:
    row_major = [
        value
        for value, strides in _returned(function)
        if strides is not None and not is_channels_last(shape_of(value), strides)
    ]
    return [
        op
        for op in convolutions
        if Convolution.onednn.is_on(op) and op.results[0] not in row_major and _suits_channels_last(op)
    ]


def is_channels_last(sizes: Sequence[Number], strides: Sequence[Number]) -> bool:
    return len(sizes) == 4 and same_places(sizes, strides, channels_last(sizes))


def _suits_channels_last(op: ir.Operation) -> bool:
    x, weight = list(op.operands)[:2]
    return suits_channels_last(shape_of(x), shape_of(weight), shape_of(op.results[0]), convolution_arguments(op))


def _follows(value: ir.Value, chosen: Sequence[ir.Operation]) -> bool:
    """Whether the value comes from one of the `chosen` by ops that keep the memory order."""
    while not isinstance(value.owner, ir.Block) and len(shape_of(value)) == 4:
        op = value.owner
        if op.operation in chosen:
            return True
        large = [x for x in op.operands if shape_of(x) == shape_of(value)]
        if _overload(op) in _FOLLOWS:
            large = list(op.operands)[:1]
        elif Cat.matches(op):
            large = list(op.operands)
        if not (Cuesta.owns(op) or Call.matches(op)) or not large:
            return False
        value = large[0]
    return False


def _overload(op: ir.Operation) -> str:
    """The overload that a call into ATen calls; "" for other ops."""
    return Call.overload.of(op) if Call.matches(op) else ""


def _set_strides(op: ir.Operation, operands: int, strides_of: _Layout = channels_last) -> None:
    """One layout, channels_last by default, for the first `operands` operands and every result of four dims."""
    seen, made = AtenCall.operand_strides.of(op), RESULT_STRIDES.of(op)
    seen[:operands] = [strides_of(shape_of(x)) for x in list(op.operands)[:operands]]
    for i, result in enumerate(op.results):
        if len(shape_of(result)) == 4:
            made[i] = strides_of(shape_of(result))
    AtenCall.operand_strides.put(op, seen)
    RESULT_STRIDES.put(op, made)
