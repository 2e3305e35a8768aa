"""Puts convolutions in channels_last, in which cuDNN's fast kernels work: any other layout they convert on every call.

    cuesta.convolution(%x, %w) {result_strides = [[3136, 49, 7, 1]]}   →   {result_strides = [[3136, 1, 448, 64]]}

Only where tensor cores compute (`cudnn` on the op): bf16, f16, and f32 where torch allows TF32. In full f32, row-major
is the faster one. Kernels follow the memory order of what they read, so one kernel at each end of the
network is all that converts. A graph that returns most of what it computes on the way (the forward one of a training
step) keeps the layout in which the other graph expects that; so does one with grouped convolutions, for which
channels_last is the slower one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta.dialect import int_array
from cuesta.dialects.module_target import target_of
from cuesta.dialects.types import shape_of
from cuesta.passes.convolution_epilogue import on_tensor_cores
from cuesta.passes.graph_rewrite import functions
from cuesta.passes.registry import Pass, register_pass
from cuesta.sizes import Number

#: Calls into ATen whose results lie as their first operand does.
_FOLLOWS = frozenset({"aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default"})
#: Returned tensors of four dims for each convolution from which on a graph is left as it is.
_RETURNED_SHARE = 0.5


def channels_last(sizes: Sequence[Number]) -> list[Number]:
    """The strides of an [N, C, H, W] tensor whose channels are next to one another, as torch counts them."""
    _, c, h, w = sizes
    return [c * h * w, 1, w * c, c]


@register_pass("choose-layouts")
@dataclass(frozen=True)
class ChooseLayouts(Pass):
    """Chooses the memory order of convolutions."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cuda":
            return
        with module.context:
            for function in functions(module):
                _choose(function)


def _choose(function: func.FuncOp) -> None:
    ops = [op.operation for op in function.regions[0].blocks[0].operations]
    convolutions = [op for op in ops if op.name == "cuesta.convolution" and "result_strides" in op.attributes]
    chosen = [op for op in convolutions if len(shape_of(op.results[0])) == 4 and on_tensor_cores(op)]
    if not chosen or any(op.attributes["groups"].value != 1 for op in convolutions):
        return
    returned = sum(len(shape_of(v)) == 4 for v in ops[-1].operands)
    if returned > _RETURNED_SHARE * len(chosen):
        return
    for op in chosen:
        _set_strides(op, operands=2)
    for op in ops:
        if op.name == "aten.call" and op.attributes["overload"].value in _FOLLOWS and _follows(op.operands[0], chosen):
            _set_strides(op, operands=1)


def _follows(value: ir.Value, chosen: Sequence[ir.Operation]) -> bool:
    """Whether the value comes from one of the `chosen` by ops that keep the memory order."""
    while not isinstance(value.owner, ir.Block) and len(shape_of(value)) == 4:
        op = value.owner
        if op.operation in chosen:
            return True
        large = [x for x in op.operands if shape_of(x) == shape_of(value)]
        if op.name == "aten.call" and op.attributes["overload"].value in _FOLLOWS:
            large = list(op.operands)[:1]
        elif op.name == "cuesta.cat":
            large = list(op.operands)
        if not op.name.startswith(("cuesta.", "aten.")) or not large:
            return False
        value = large[0]
    return False


def _set_strides(op: ir.Operation, operands: int) -> None:
    """Channels last for the first `operands` operands and every result."""
    seen = list(op.attributes["operand_strides"])
    seen[:operands] = [int_array(channels_last(shape_of(x))) for x in list(op.operands)[:operands]]
    op.attributes["operand_strides"] = ir.ArrayAttr.get(seen)
    made = [int_array(channels_last(shape_of(r))) for r in op.results]
    op.attributes["result_strides"] = ir.ArrayAttr.get(made)
