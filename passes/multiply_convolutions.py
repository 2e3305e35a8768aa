"""Makes a matrix product of a convolution on a CPU whose window is one element, or whose windows lie side by side.

    cuesta.convolution(%x, %w, %bias)      %1 = reshape(permute(%x)) : tensor<6272x64xf32>
      : tensor<2x256x56x56xf32>        →   %2 = cuesta.addmm(%bias, %1, permute(reshape(%w)))
                                           permute(reshape(%2)) : tensor<2x256x56x56xf32>

In channels_last the images are a matrix, a row for each place, and all of these are views. MKL multiplies it in 0.6 to
1 of the time that oneDNN's convolution takes, and few rows are a kernel of ours (`product_routes`); the gradients, two
products more, take 0.5 to 0.95 of the time (decision 17). Images that lie otherwise stay oneDNN's.

Large windows side by side over images of few channels are copied, a row for each (`cuts_patches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cuesta._mlir import ir
from cuesta.convolution_layouts import cuts_patches
from cuesta.dialects.aten import decode_call
from cuesta.dialects.cuesta.contraction import AddMatMul, MatMul, convolution_arguments
from cuesta.dialects.cuesta.dialect import float_attr, ints
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.module_target import target_of
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.options import EAGERS_BITS
from cuesta.passes.form_kernels.memory_order import MemoryOrder
from cuesta.passes.graph_rewrite import functions, replace
from cuesta.passes.product_routes import ROUTE
from cuesta.passes.registry import Pass, register_pass
from cuesta.product_kinds import LIBRARY
from cuesta.sizes import Number

Value: TypeAlias = ir.Value
_B = GraphBuilder()

_CHANNELS_LAST, _BACK = [0, 2, 3, 1], [0, 3, 1, 2]
#: N, C, windows down, rows of one, windows across, columns of one, with each window together; and back.
_BY_WINDOW, _BY_IMAGE = [0, 2, 4, 1, 3, 5], [0, 3, 1, 4, 2, 5]
_GRADIENTS = "aten.convolution_backward.default"


@register_pass("multiply-convolutions")
@dataclass(frozen=True)
class MultiplyConvolutions(Pass):
    """Makes matrix products of convolutions of single places, and of patches."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind != "cpu":
            return
        with module.context:
            for function in functions(module):
                ops = [op.operation for op in function.regions[0].blocks[0].operations]
                memory = MemoryOrder()
                # All are found before one is replaced: a product does not say how it lies.
                for op in [op for op in ops if _is_product(op, memory)]:
                    rule = _product if op.name == "cuesta.convolution" else _gradients
                    with ir.InsertionPoint(op), op.location:
                        replace(op, rule(op))


def _is_product(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether an op is a convolution in f32, or its gradients, with a window of one element and images that are
    matrices, or of patches."""
    if op.name == "cuesta.convolution" and "onednn" in op.attributes:
        x, weight = list(op.operands)[:2]
        parameters = convolution_arguments(op)
    elif op.name == "aten.call" and op.attributes["overload"].value == _GRADIENTS:
        if op.attributes["reason"].value == EAGERS_BITS:
            return False
        _, x, weight, _, *others, _ = _arguments(op)
        parameters = tuple(others)
    else:
        return False
    stride, padding, _, transposed, _, groups = parameters
    if len(shape_of(x)) != 4 or spelling_of(x) != "f32" or transposed or groups != 1:
        return False
    if any(isinstance(n, int) and n == 0 for n in (*shape_of(x), *shape_of(weight))):
        return False  # no places, or nothing to sum: not worth views of it
    if cuts_patches(shape_of(x), shape_of(weight), parameters):
        return True
    _, _, *window = shape_of(weight)
    plain = all(n == 1 for n in (*window, *stride)) and not any(padding)
    # Images of one place are a row of channels each in any layout.
    return plain and (memory.order(x) == _CHANNELS_LAST or shape_of(x)[2:] == (1, 1))


def _product(op: ir.Operation) -> list[Value]:
    x, weight, *bias = op.operands
    a, b = _patches(x, weight), _B.permute(_matrix(weight), [1, 0])
    n, o, h, w = shape_of(op.results[0])
    return [_B.permute(_B.reshape(_multiply(a, b, bias), [n, h, w, o]), _BACK)]


def _gradients(op: ir.Operation) -> list[Value]:
    gradient, x, weight, *_, wanted = _arguments(op)
    rows = _rows(gradient)
    made: list[Value] = []
    if wanted[0]:
        made.append(_images(_multiply(rows, _matrix(weight)), x, weight))
    if wanted[1]:
        product = _multiply(_B.permute(rows, [1, 0]), _patches(x, weight))
        # Its sums are long, and it may be one tile of a kernel's: one thread's.
        product.owner.attributes[ROUTE] = ir.StringAttr.get(LIBRARY)
        made.append(_B.reshape(product, shape_of(weight)))
    if wanted[2]:
        made.append(_B.reduce("sum", gradient, [0, 2, 3]))
    stands = ints(op.attributes["positions"]) if "positions" in op.attributes else range(len(op.results))
    asked = [i for i in range(3) if wanted[i]]
    return [made[asked.index(position)] for position in stands]


def _arguments(op: ir.Operation) -> list[Any]:
    arguments, _ = decode_call(op.attributes["args"].value, list(op.operands))
    return arguments


def _rows(images: Value) -> Value:
    """[N, C, H, W] as a matrix, a row for each place."""
    n, c, h, w = shape_of(images)
    return _B.reshape(_B.permute(images, _CHANNELS_LAST), [n * h * w, c])


def _patches(images: Value, weight: Value) -> Value:
    """[N, C, H, W] as a matrix, a row for each window: that of its elements of [C, h, w]."""
    n, c, height, width, h, w = _cut(images, weight)
    if h == w == 1:
        return _rows(images)
    cut = _B.permute(_B.reshape(images, [n, c, height, h, width, w]), _BY_WINDOW)
    return _B.reshape(cut, [n * height * width, c * h * w])


def _images(rows: Value, images: Value, weight: Value) -> Value:
    """The matrix of `_patches(images, weight)` as [N, C, H, W]."""
    n, c, height, width, h, w = _cut(images, weight)
    if h == w == 1:
        return _B.permute(_B.reshape(rows, [n, height, width, c]), _BACK)
    cut = _B.permute(_B.reshape(rows, [n, height, width, c, h, w]), _BY_IMAGE)
    return _B.reshape(cut, shape_of(images))


def _cut(images: Value, weight: Value) -> tuple[Number, ...]:
    """N, C, windows down and across, and a window's sizes."""
    n, c, *places = shape_of(images)
    _, _, *window = shape_of(weight)
    height, width = (size if k == 1 else size // k for size, k in zip(places, window, strict=True))
    return (n, c, height, width, *window)


def _matrix(weight: Value) -> Value:
    """[O, I, h, w] as [O, I * h * w]."""
    o, i, h, w = shape_of(weight)
    return _B.reshape(weight, [o, i * h * w])


def _multiply(a: Value, b: Value, bias: Sequence[Value] = ()) -> Value:
    result = tensor([shape_of(a)[0], shape_of(b)[1]], spelling_of(a))
    if bias:
        return AddMatMul(bias[0], a, b, float_attr(1.0), float_attr(1.0), result).result
    return MatMul(a, b, result).result
