"""Imports matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from cuesta.dialects.cuesta import contraction
from cuesta.dialects.graph_builder import Value
from cuesta.dialects.types import opmath, shape_of
from cuesta.frontend.call import Call
from cuesta.frontend.capture.onednn import is_onednn_convolution
from cuesta.frontend.capture.tensor_cores import cudnn_kernels, products_allow_tf32
from cuesta.frontend.rules import Decline, imports
from cuesta.sizes import Size


@imports("mm.default", "bmm.default")
def mm(b: Call, x: Value, y: Value) -> Value:
    return _with_precision(b, contraction.MatMul(x, y, *b.types).result)


@imports("addmm.default", "baddbmm.default")
def addmm(b: Call, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    product = contraction.AddMatMul(bias, x, y, beta, alpha, *b.types).result
    return _with_precision(b, product)


@imports("mv", "dot", "vdot")
def mv(b: Call, x: Value, y: Value) -> Value:
    return b.convert(_weighed(b, x, y), b.spelling)


@imports("addmv")
def addmv(b: Call, bias: Value, x: Value, y: Value, *, beta: float = 1, alpha: float = 1) -> Value:
    spelling = b.spelling
    wide = opmath(spelling)
    total = _weighed(b, x, y)
    total = b.with_number("mul", total, alpha) if alpha != 1 else total
    if beta == 0:  # the bias is ignored, even if it is NaN
        return b.convert(total, spelling)
    bias = b.expand(b.convert(bias, wide), shape_of(total))
    bias = b.with_number("mul", bias, beta) if beta != 1 else bias
    return b.convert(b.pointwise("add", bias, total), spelling)


def _weighed(b: Call, x: Value, y: Value) -> Value:
    """The sum of x · y over x's last dim, in the type of its arithmetic. Declines f32 and f64, which BLAS reads faster
    than our loop (1.2 to 5 times on one thread). On a CPU, ATen's loops over integers and narrow floats are slower."""
    spelling = b.spelling
    if spelling in ("f32", "f64") or ("f" in spelling and not b.on_cpu):
        raise Decline("products with a vector run in the library")
    x, y = (b.convert(v, opmath(spelling)) for v in (x, y))
    return b.reduce("sum", b.pointwise("mul", x, y), [len(shape_of(x)) - 1])


def _with_precision(b: Call, product: Value) -> Value:
    """Marks a product of f32 that may be computed in TF32."""
    if b.meta.device.type == "cuda" and b.meta.dtype == torch.float32 and products_allow_tf32():
        contraction.AnyProduct.precision.put(product.owner, "tf32")
    return product


@imports("convolution.default")
def convolution(
    b: Call,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    if isinstance(groups, Size):
        raise Decline("convolution whose number of groups depends on the call")
    result: Value = contraction.Convolution(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, *b.types
    ).result
    library = cudnn_kernels(b.meta)
    if library is not None:
        contraction.Convolution.cudnn.put(result.owner, library)
    if is_onednn_convolution(b.meta, transposed):
        contraction.Convolution.onednn.mark(result.owner)
    return result
