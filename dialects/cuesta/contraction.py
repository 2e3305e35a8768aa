"""Defines matrix products and convolutions, which stay single ops until a pass decides who computes them."""

from typing import Annotated, Any, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import OPTIONAL, Flag, Float, Int, Ints, Marker, Text

Tensors: TypeAlias = list[torch.Tensor]


class AnyProduct(Operation):
    """What both products of matrices have in common."""

    #: Of an f32 product on a GPU: "tf32" if torch allows TF32.
    precision: Annotated[Text, OPTIONAL]
    #: The way to compute the product (passes/libraries/product_routes.py).
    route: Annotated[Text, OPTIONAL]


class MatMul(AnyProduct, name="mm", traits=[ext.Pure]):
    """[M, K] @ [K, N], or with a leading batch dim on both.

    If the product becomes a kernel of ours, the result may be wider than the operands, and M ([*M, K] @ [K, N]) or the
    batch may be several dims.
    """

    a: Operand
    b: Operand
    #: Makes the op a kernel of ours: its tile, the text of a `Tile` or of `Panels` (dialects/product.py).
    product: Annotated[Text, OPTIONAL]
    #: Marks a batched product that multiplies each panel of a right factor that `freezing` has packed.
    packed: Annotated[Marker, OPTIONAL]
    result: Result


class AddMatMul(AnyProduct, name="addmm", traits=[ext.Pure]):
    """`beta * bias + alpha * (a @ b)`; bias broadcasts to the product; one leading batch dim is allowed."""

    bias: Operand
    a: Operand
    b: Operand
    beta: Float
    alpha: Float
    result: Result


class Convolution(Operation, name="convolution", traits=[ext.Pure]):
    """ATen's convolution: x [N, C, *S], weight [O, C/groups, *K] and an optional bias [O].

    `transposed` is 1 for the transposed form, whose weight is [C, O/groups, *K].
    """

    x: Operand
    weight: Operand
    bias: Operand | None
    stride: Ints
    padding: Ints
    dilation: Ints
    transposed: Flag
    output_padding: Ints
    groups: Int
    #: How cuDNN computes the op, if it does: with "tensor_cores" (f32 if torch allows TF32), or in "full" f32.
    cudnn: Annotated[Text, OPTIONAL]
    #: Marks an op that ATen leaves to oneDNN.
    onednn: Annotated[Marker, OPTIONAL]
    result: Result


@reference(MatMul)
def _mm(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    wide = types.torch_dtype(types.spelling_of(op.results[0]))
    return torch.matmul(xs[0].to(wide), xs[1].to(wide))


@reference(AddMatMul)
def _addmm(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    function = torch.addmm if xs[1].dim() == 2 else torch.baddbmm
    return function(*xs, beta=AddMatMul.beta.of(op), alpha=AddMatMul.alpha.of(op))


def convolution_arguments(op: ir.Operation) -> tuple[Any, ...]:
    """stride, padding, dilation, transposed, output_padding, groups, as aten.convolution takes them."""
    c = Convolution
    fields = (c.stride, c.padding, c.dilation, c.transposed, c.output_padding, c.groups)
    return tuple(field.of(op) for field in fields)


@reference(Convolution)
def _convolution(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    bias = xs[2] if len(xs) == 3 else None
    result: torch.Tensor = torch.ops.aten.convolution(xs[0], xs[1], bias, *convolution_arguments(op))
    return result


@verifier(MatMul, AddMatMul)
def _verify_mm(op: ir.Operation) -> str | None:
    a, b = (types.shape_of(x) for x in list(op.operands)[-2:])
    own = MatMul.product.is_on(op)
    alike = len(a) == len(b) >= 2 and a[:-2] == b[:-2] and (own or len(a) <= 3)
    rows = own and len(b) == 2 < len(a)
    if not (alike or rows) or a[-1] != b[-2]:
        return f"{list(a)} and {list(b)} do not multiply"
    expected, actual = [*a[:-1], b[-1]], list(types.shape_of(op.results[0]))
    return None if expected == actual else f"multiplies to {expected}, but the result is {actual}"


@verifier(Convolution)
def _verify_convolution(op: ir.Operation) -> str | None:
    x, w = types.shape_of(op.operands[0]), types.shape_of(op.operands[1])
    groups, transposed = Convolution.groups.of(op), Convolution.transposed.of(op)
    channels = w[0] if transposed else w[1] * groups
    if x[1] != channels:
        return f"x has {x[1]} channels, the weight {list(w)} with groups {groups} takes {channels}"
    return None
