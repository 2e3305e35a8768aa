"""What cuDNN does behind a convolution in the same kernel: a bias, a residual and relu.

`aten.cudnn_convolution_relu` and `aten.cudnn_convolution_add_relu` add in f32 and round once; in f32 they follow
torch's setting for TF32, as the convolution alone does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.match import only_user

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Epilogue:
    """What follows a convolution: relu, and the sum with a residual before it where there is one."""

    relu: ir.Operation
    residual: Value | None


def epilogue_of(value: Value) -> Epilogue | None:
    """What `value` goes through and nothing else reads, None where that is not what cuDNN has."""
    user = only_user(value)
    residual = None
    if user is not None and user.name == "cuesta.add":
        x, y = user.operands
        residual = y if x == value else x
        if residual.type != value.type:
            return None
        user = only_user(user.results[0])
    return Epilogue(user, residual) if user is not None and user.name == "cuesta.relu" else None


def refusal(convolution: ir.Operation) -> str | None:
    """Why cuDNN's kernels with an epilogue do not take this convolution, or None."""
    (result,) = convolution.results
    attributes = convolution.attributes
    if len(shape_of(result)) != 4:
        return "cuDNN has epilogues for convolutions of two dims"
    if spelling_of(result) == "f64":
        return "cuDNN has no epilogues in f64"
    if attributes["transposed"].value or attributes["groups"].value != 1:
        return "cuDNN has no epilogues for transposed and grouped convolutions"
    return None


def moved_bytes(convolution: ir.Operation) -> int:
    """Bytes that a kernel behind the convolution reads and writes of its result."""
    (result,) = convolution.results
    return 2 * math.prod(shape_of(result)) * byte_size(spelling_of(result))
