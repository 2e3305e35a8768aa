"""Matches the epilogues that cuDNN computes in the kernel of a convolution: a bias, a residual and relu.

`aten.cudnn_convolution_relu` and `aten.cudnn_convolution_add_relu` add in f32 and round once; in f32 they follow
torch's setting for TF32, as the convolution alone does.
"""

from __future__ import annotations

from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import Convolution
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.types import byte_count, shape_of
from cuesta.passes.analysis.match import only_user

#: The targets whose library is known to be slower than kernels of ours, and the interpreter, which tests the kernels.
INTERPRETER = "tt"
TARGETS = ("cuda", INTERPRETER)


@dataclass(frozen=True)
class Epilogue:
    """What follows a convolution: relu, and the sum with a residual before it where there is one."""

    relu: ir.Operation
    residual: ir.Value | None


def epilogue_of(value: ir.Value) -> Epilogue | None:
    """The epilogue of `value`, which has no other readers; None where cuDNN has no such epilogue."""
    user = only_user(value)
    residual = None
    if user is not None and pointwise.OPS["add"].matches(user):
        x, y = user.operands
        residual = y if x == value else x
        if residual.type != value.type:
            return None
        user = only_user(user.results[0])
    return Epilogue(user, residual) if user is not None and pointwise.OPS["relu"].matches(user) else None


def on_tensor_cores(convolution: ir.Operation) -> bool:
    """Whether cuDNN computes the convolution with tensor cores, whose kernels want channels_last."""
    return Convolution.cudnn.find(convolution) == "tensor_cores"


def is_for_tensor_cores(convolution: ir.Operation, target: str) -> bool:
    """Whether a pass prepares the convolution for tensor cores: cuDNN computes it there, or the interpreter stands for
    a GPU that has them."""
    return on_tensor_cores(convolution) or target == INTERPRETER


def _is_channels_last(convolution: ir.Operation) -> bool:
    (result,) = convolution.results
    traced = RESULT_STRIDES.find(convolution)
    if traced is None:
        return False
    (strides,), sizes = traced, shape_of(result)
    return sizes[1] == 1 or strides[1] == 1 or sizes[2] * sizes[3] == 1


def refusal(convolution: ir.Operation) -> str | None:
    """Why cuDNN's kernels with an epilogue do not take this convolution, or None."""
    (result,) = convolution.results
    if len(shape_of(result)) != 4:
        return "cuDNN has epilogues for convolutions of two spatial dims only"
    if not Convolution.cudnn.is_on(convolution):
        return "cuDNN does not compute this convolution"
    if Convolution.transposed.of(convolution) or Convolution.groups.of(convolution) != 1:
        return "cuDNN has no epilogues for transposed and grouped convolutions"
    if on_tensor_cores(convolution) and not _is_channels_last(convolution):
        # Up to three times the time of separate ops, on an H100: 1x1 of 16x256x32x32 in TF32 takes 34.7 µs, not 14.8.
        return "cuDNN's epilogues are slow on row-major tensors"
    return None


def moved_bytes(convolution: ir.Operation) -> int:
    """Bytes that a kernel behind the convolution reads and writes of its result."""
    (result,) = convolution.results
    return 2 * byte_count(result)


def rebuilt(convolution: ir.Operation, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    """The same convolution of the same x with another weight and bias, with the strides that it was traced with."""
    c, a = Convolution, convolution.attributes
    parameters = (c.stride, c.padding, c.dilation, c.transposed, c.output_padding, c.groups)
    (result,) = convolution.results
    op = Convolution(
        convolution.operands[0], weight, bias, *[a[parameter.name] for parameter in parameters], result.type
    ).operation
    for name in (Convolution.cudnn.name, RESULT_STRIDES.name):
        if name in a:
            op.attributes[name] = a[name]
    if (traced := OPERAND_STRIDES.find(convolution)) is not None:
        strides = traced[:2]
        if bias is not None:
            strides.append([1])
        OPERAND_STRIDES.put(op, strides)
    value: ir.Value = op.results[0]
    return value
