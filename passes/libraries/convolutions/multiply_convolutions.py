"""Rewrites a convolution as a matrix product, if its window is one element (on a CPU) or its windows lie side by side.

    cuesta.convolution(%x, %w, %bias)      %1 = reshape(permute(%x)) : tensor<6272x64xf32>
      : tensor<2x256x56x56xf32>        →   %2 = cuesta.addmm(%bias, %1, permute(reshape(%w)))
                                           permute(reshape(%2)) : tensor<2x256x56x56xf32>

In channels_last the images are a matrix with one row per pixel, and all reshapes and permutes are views. MKL's product
takes 0.6 to 1 of the time of oneDNN's convolution, and one of few rows is a kernel of ours (`products`). The
gradients, two more products, take 0.5 to 0.95 of the time (decision 17). In bf16, MobileNetV2 is 1 % faster so, and a
training step of a ResNet 2 %. Images in another layout stay with oneDNN. With a stride, the pixels that are read are
copied, where oneDNN converts the weight; gradients then stay with it.

Windows side by side over images of few channels (`cuts_patches`) are copied by im2col, one row per window. This alone
is done on CUDA as well, where rows such as ConvMixer's, of 147 elements, are padded to multiples of 16 bytes. On a CPU
so are those over any images that have few elements beside the weight, which oneDNN would convert
(`moves_less_as_product`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, Convolution, MatMul, convolution_arguments
from cuesta.dialects.fields import float_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import on_cpu, target_of
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.layout import CHANNELS_LAST, FROM_CHANNELS_LAST
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import on_tensor_cores
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    given_gradients,
    gradient_arguments,
    replace_chosen,
)
from cuesta.policy.convolution_layouts import cuts_patches, moves_less_as_product
from cuesta.policy.product_kinds import LIBRARY
from cuesta.sizes import Number, Size

_B = GraphBuilder()

#: Types whose products tensor cores compute under any of torch's settings.
_NARROW = frozenset({"bf16", "f16"})
#: Types in which a product on a CPU is no slower than a convolution.
_ON_CPU = frozenset({"f32", "bf16"})
#: Elements of bf16 or f16 in 16 bytes and in 8, and the fewest of a row whose product is worth a copy.
_VECTOR, _HALF_A_VECTOR, _LONG = 8, 4, 64
#: From [N, C, windows down, window's rows, windows across, window's columns] to [N, windows down, windows across, C,
#: window's rows, window's columns], and the inverse.
_BY_WINDOW, _BY_IMAGE = [0, 2, 4, 1, 3, 5], [0, 3, 1, 4, 2, 5]


@register_pass("multiply-convolutions")
class MultiplyConvolutions(Pass):
    """Rewrites convolutions of single pixels, and of patches, as matrix products."""

    def run(self, module: ir.Module) -> None:
        is_chosen = {"cpu": _is_product, "cuda": _cuts_patches_on_gpu}.get(target_of(module).kind)
        if is_chosen is not None:
            replace_chosen(module, is_chosen, lambda op: _product(op) if Convolution.matches(op) else _gradients(op))


def _arguments(
    op: ir.Operation, is_librarys: Callable[[ir.Operation], bool]
) -> tuple[ir.Value, ir.Value, tuple[Any, ...]] | None:
    """Images, weight and parameters of a convolution that `is_librarys`, or of a call for gradients; None for any other
    op."""
    if Convolution.matches(op) and is_librarys(op):
        return op.operands[0], op.operands[1], convolution_arguments(op)
    if are_gradients(op):
        _, x, weight, _, *parameters, _ = gradient_arguments(op)
        return x, weight, tuple(parameters)
    return None


def _cuts_patches_on_gpu(op: ir.Operation, _: MemoryOrder) -> bool:
    """Whether an op is a convolution of images of few channels, or its gradients, with windows side by side."""
    found = _arguments(op, on_tensor_cores)
    if found is None:
        return False
    x, weight, parameters = found
    some = len(shape_of(x)) == 4 and 0 not in shape_of(x) and spelling_of(x) in _NARROW
    return some and cuts_patches(shape_of(x), shape_of(weight), parameters, on_gpu=True)


def _is_product(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether an op is a convolution by oneDNN, or its gradients, that cuts images into patches, or has a window of one
    element and images that are matrices."""
    found = _arguments(op, Convolution.onednn.is_on)
    if found is None:
        return False
    x, weight, parameters = found
    stride, padding, _, transposed, _, groups = parameters
    if len(shape_of(x)) != 4 or spelling_of(x) not in _ON_CPU or transposed or groups != 1:
        return False
    if any(isinstance(n, int) and n == 0 for n in (*shape_of(x), *shape_of(weight))):
        return False  # no pixels, or nothing to sum: not worth the views
    if cuts_patches(shape_of(x), shape_of(weight), parameters):
        return True
    if moves_less_as_product(shape_of(x), shape_of(weight), parameters, spelling_of(x)):
        return True
    _, _, *window = shape_of(weight)
    if any(n != 1 for n in window) or any(padding) or not _can_read_pixels(op, stride):
        return False
    # Images of one pixel are a row of channels each, in any layout.
    return memory.order(x) == CHANNELS_LAST or shape_of(x)[2:] == (1, 1)


def _can_read_pixels(op: ir.Operation, stride: Sequence[int]) -> bool:
    """Whether a convolution, or its gradients, reads every pixel; or whether a convolution can read a known number."""
    if all(n == 1 for n in stride):
        return True
    return Convolution.matches(op) and all(isinstance(n, int) for n in shape_of(op.operands[0]))


def _product(op: ir.Operation) -> list[ir.Value]:
    x, weight, *bias = op.operands
    if list(shape_of(weight)[2:]) == [1, 1]:
        x = _read_pixels(x, Convolution.stride.of(op))
    a, b = _aligned(_patches(x, weight)), _B.permute(_aligned(_matrix(weight)), [1, 0])
    n, o, h, w = shape_of(op.results[0])
    return [_B.permute(_B.reshape(_multiply(a, b, bias), [n, h, w, o]), FROM_CHANNELS_LAST)]


def _gradients(op: ir.Operation) -> list[ir.Value]:
    gradient, x, weight, *_, wanted = gradient_arguments(op)
    rows = _rows(gradient)
    made: list[ir.Value] = []
    if wanted[0]:
        made.append(_images(_multiply(rows, _matrix(weight)), x, weight))
    if wanted[1]:
        product = _multiply(_B.permute(rows, [1, 0]), _aligned(_patches(x, weight)))
        # Its sums are long, and as a kernel it may be a single tile, computed by one thread.
        AnyProduct.route.put(product.owner, LIBRARY)
        columns = math.prod(shape_of(weight)[1:])
        made.append(_B.reshape(_B.slice(product, 1, 0, columns), shape_of(weight)))
    if wanted[2]:
        made.append(_B.reduce("sum", gradient, [0, 2, 3]))
    asked = [i for i in range(3) if wanted[i]]
    return [made[asked.index(position)] for position in given_gradients(op)]


def _read_pixels(images: ir.Value, stride: Sequence[int]) -> ir.Value:
    """The pixels of [N, C, H, W] that windows of one element read."""
    for dim, step in enumerate(stride, 2):
        if step != 1:
            images = _B.slice(images, dim, 0, -(-static_shape(images)[dim] // step), step)
    return images


def _rows(images: ir.Value) -> ir.Value:
    """[N, C, H, W] as a matrix with one row per pixel."""
    n, c, h, w = shape_of(images)
    return _B.reshape(_B.permute(images, CHANNELS_LAST), [n * h * w, c])


def _patches(images: ir.Value, weight: ir.Value) -> ir.Value:
    """im2col of [N, C, H, W]: one row per window, flattened [C, h, w]."""
    n, c, height, width, h, w = _cut(images, weight)
    if h == w == 1:
        return _rows(images)
    cut = _B.permute(_B.reshape(images, [n, c, height, h, width, w]), _BY_WINDOW)
    return _B.reshape(cut, [n * height * width, c * h * w])


def _aligned(matrix: ir.Value) -> ir.Value:
    """The matrix. On a GPU it gets columns of zeros where its rows would not begin at multiples of 8 bytes: kernels
    would load such rows one element at a time."""
    columns = shape_of(matrix)[1]
    is_left = on_cpu(matrix) or isinstance(columns, Size) or columns < _LONG or columns % _HALF_A_VECTOR == 0
    return matrix if is_left else _B.pad(matrix, 1, 0, -columns % _VECTOR)


def _images(rows: ir.Value, images: ir.Value, weight: ir.Value) -> ir.Value:
    """The matrix of `_patches(images, weight)` as [N, C, H, W]."""
    n, c, height, width, h, w = _cut(images, weight)
    if h == w == 1:
        return _B.permute(_B.reshape(rows, [n, height, width, c]), FROM_CHANNELS_LAST)
    cut = _B.permute(_B.reshape(rows, [n, height, width, c, h, w]), _BY_IMAGE)
    return _B.reshape(cut, shape_of(images))


def _cut(images: ir.Value, weight: ir.Value) -> tuple[Number, ...]:
    """N, C, the numbers of windows down and across, and a window's sizes."""
    n, c, *places = shape_of(images)
    _, _, *window = shape_of(weight)
    height, width = (size if k == 1 else size // k for size, k in zip(places, window, strict=True))
    return (n, c, height, width, *window)


def _matrix(weight: ir.Value) -> ir.Value:
    """[O, I, h, w] as [O, I * h * w]."""
    o, i, h, w = shape_of(weight)
    return _B.reshape(weight, [o, i * h * w])


def _multiply(a: ir.Value, b: ir.Value, bias: Sequence[ir.Value] = ()) -> ir.Value:
    result = tensor([shape_of(a)[0], shape_of(b)[1]], spelling_of(a))
    if bias:
        return AddMatMul(bias[0], a, b, float_attr(1.0), float_attr(1.0), result).result
    return MatMul(a, b, result).result
