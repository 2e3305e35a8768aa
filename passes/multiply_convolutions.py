"""Makes a matrix product of a convolution on a CPU whose window is one element.

    cuesta.convolution(%x, %w, %bias)      %1 = reshape(permute(%x)) : tensor<6272x64xf32>
      : tensor<2x256x56x56xf32>        →   %2 = cuesta.addmm(%bias, %1, permute(reshape(%w)))
                                           permute(reshape(%2)) : tensor<2x256x56x56xf32>

In channels_last the images are a matrix, a row for each place, and all of these are views. MKL multiplies it in 0.6 to
1 of the time that oneDNN's convolution takes, and few rows are a kernel of ours (`product_routes`); the gradients, two
products more, take 0.5 to 0.95 of the time (decision 17). Images that lie otherwise stay oneDNN's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cuesta._mlir import ir
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
_GRADIENTS = "aten.convolution_backward.default"


@register_pass("multiply-convolutions")
@dataclass(frozen=True)
class MultiplyConvolutions(Pass):
    """Makes matrix products of convolutions of single places."""

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
    matrices."""
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
    _, _, *window = shape_of(weight)
    plain = all(n == 1 for n in (*window, *stride)) and not any(padding)
    # Images of one place are a row of channels each in any layout.
    return plain and (memory.order(x) == _CHANNELS_LAST or shape_of(x)[2:] == (1, 1))


def _product(op: ir.Operation) -> list[Value]:
    x, weight, *bias = op.operands
    a, b = _rows(x), _B.permute(_matrix(weight), [1, 0])
    return [_images(_multiply(a, b, bias), shape_of(op.results[0]))]


def _gradients(op: ir.Operation) -> list[Value]:
    gradient, x, weight, *_, wanted = _arguments(op)
    rows = _rows(gradient)
    made: list[Value] = []
    if wanted[0]:
        made.append(_images(_multiply(rows, _matrix(weight)), shape_of(x)))
    if wanted[1]:
        product = _multiply(_B.permute(rows, [1, 0]), _rows(x))
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


def _images(rows: Value, sizes: Sequence[Number]) -> Value:
    """The matrix as [N, C, H, W]."""
    n, c, h, w = sizes
    return _B.permute(_B.reshape(rows, [n, h, w, c]), _BACK)


def _matrix(weight: Value) -> Value:
    """[O, I, 1, 1] as [O, I]."""
    return _B.reshape(weight, list(shape_of(weight)[:2]))


def _multiply(a: Value, b: Value, bias: Sequence[Value] = ()) -> Value:
    result = tensor([shape_of(a)[0], shape_of(b)[1]], spelling_of(a))
    if bias:
        return AddMatMul(bias[0], a, b, float_attr(1.0), float_attr(1.0), result).result
    return MatMul(a, b, result).result
