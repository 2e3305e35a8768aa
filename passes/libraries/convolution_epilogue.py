"""Matches the epilogues that cuDNN computes in the kernel of a convolution: a bias, a residual and relu.

`aten.cudnn_convolution_relu` and `aten.cudnn_convolution_add_relu` add in f32 and round once; in f32 they follow
torch's setting for TF32, as the convolution alone does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.cuesta import contraction
from cuesta.dialects.fields import int_array, numbers
from cuesta.dialects.types import byte_count, shape_of
from cuesta.passes.analysis.match import only_user

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Epilogue:
    """What follows a convolution: relu, and the sum with a residual before it where there is one."""

    relu: ir.Operation
    residual: Value | None


def epilogue_of(value: Value) -> Epilogue | None:
    """The epilogue of `value`, which has no other readers; None where cuDNN has no such epilogue."""
    user = only_user(value)
    residual = None
    if user is not None and user.name == "cuesta.add":
        x, y = user.operands
        residual = y if x == value else x
        if residual.type != value.type:
            return None
        user = only_user(user.results[0])
    return Epilogue(user, residual) if user is not None and user.name == "cuesta.relu" else None


def on_tensor_cores(convolution: ir.Operation) -> bool:
    """Whether cuDNN computes the convolution with tensor cores, whose kernels want channels_last."""
    return _cudnn(convolution) == "tensor_cores"


def _cudnn(convolution: ir.Operation) -> str | None:
    return convolution.attributes["cudnn"].value if "cudnn" in convolution.attributes else None


def _is_channels_last(convolution: ir.Operation) -> bool:
    (result,) = convolution.results
    if "result_strides" not in convolution.attributes:
        return False
    strides, sizes = numbers(convolution.attributes["result_strides"][0]), shape_of(result)
    return sizes[1] == 1 or strides[1] == 1 or sizes[2] * sizes[3] == 1


def refusal(convolution: ir.Operation) -> str | None:
    """Why cuDNN's kernels with an epilogue do not take this convolution, or None."""
    (result,) = convolution.results
    attributes = convolution.attributes
    if len(shape_of(result)) != 4:
        return "cuDNN has epilogues for convolutions of two spatial dims only"
    if _cudnn(convolution) is None:
        return "cuDNN does not compute this convolution"
    if attributes["transposed"].value or attributes["groups"].value != 1:
        return "cuDNN has no epilogues for transposed and grouped convolutions"
    if on_tensor_cores(convolution) and not _is_channels_last(convolution):
        # Up to three times the time of separate ops, on an H100: 1x1 of 16x256x32x32 in TF32 takes 34.7 µs, not 14.8.
        return "cuDNN's epilogues are slow on row-major tensors"
    return None


def moved_bytes(convolution: ir.Operation) -> int:
    """Bytes that a kernel behind the convolution reads and writes of its result."""
    (result,) = convolution.results
    return 2 * byte_count(result)


def rebuilt(convolution: ir.Operation, weight: Value, bias: Value | None) -> Value:
    """The same convolution of the same x with another weight and bias, with the strides that it was traced with."""
    a = convolution.attributes
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")
    (result,) = convolution.results
    op = contraction.Convolution(convolution.operands[0], weight, bias, *[a[n] for n in names], result.type).operation
    for name in ("cudnn", "result_strides"):
        if name in a:
            op.attributes[name] = a[name]
    if "operand_strides" in a:
        strides = list(a["operand_strides"])[:2] + [int_array([1])] * (bias is not None)
        op.attributes["operand_strides"] = ir.ArrayAttr.get(strides)
    value: Value = op.results[0]
    return value
