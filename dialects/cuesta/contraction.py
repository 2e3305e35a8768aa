"""Defines matrix products and convolutions, which stay single ops until a pass decides who computes them, and the
convolution that is a kernel of ours, with the gradient of its weight."""

import itertools
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import torch

from cuesta._mlir import ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import OPTIONAL, Flag, Float, Int, Ints, Marker, Text

Tensors: TypeAlias = list[torch.Tensor]
#: The fewest small matrices of a batch that kernels of a GPU multiply by vectors, and the most elements of one.
_MANY, _SMALL = 256, 1 << 14


def is_small_product(count: int, rows: int, terms: int, columns: int) -> bool:
    """Whether the matrices of a batch of `count` products are too small for a library on a GPU: they are many, and each
    is multiplied by a vector, or over a single element."""
    is_weighed = count >= _MANY and min(rows, columns) == 1
    return terms == 1 or (is_weighed and rows * terms * columns <= _SMALL)


class AnyProduct(Operation):
    """What both products of matrices have in common."""

    #: Of an f32 product on a GPU: "tf32" if torch allows TF32.
    precision: Annotated[Text, OPTIONAL]
    #: The way to compute the product (passes/libraries/products/routes.py).
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
    #: Marks a product whose left factor its own kernel computes from other products.
    computed: Annotated[Marker, OPTIONAL]
    result: Result


class SoftmaxMatMul(AnyProduct, name="softmax_mm", traits=[ext.Pure]):
    """softmax(a) @ b of [*batch, M, K] and [*batch, K, N], and the logsumexp of each row of `a`, [*batch, M].

    A kernel of ours on a GPU, in the type that `b` is summed in. A row of nothing but -inf gives NaN, or 0 if `safe` is
    1, and has the logsumexp -inf.
    """

    a: Operand
    b: Operand
    #: The text of its tile, a `Tile`.
    product: Text
    safe: Flag
    result: Result
    logsumexp: Result


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


class Depthwise(Operation, name="depthwise", traits=[ext.Pure]):
    """A depthwise convolution in the memory order of channels_last: x [N, H, W, C], weight [h, w, C].

    result[n, i, j, c] = Σ x[n, p(i, k), p(j, l), c] · weight[k, l, c] over k, l, where p(i, k) = (i · stride + k ·
    dilation − padding) / spread along each dim, and x counts as 0 outside and where this is no whole number. For the
    gradient of x, dilation and padding are negative, and the spread is the convolution's stride. The result may be
    wider than the operands; it is summed in its own type.
    """

    x: Operand
    weight: Operand
    stride: Ints
    padding: Ints
    dilation: Ints
    spread: Ints
    result: Result


class DepthwiseWeight(Operation, name="depthwise_weight", traits=[ext.Pure]):
    """The gradient of a `Depthwise`'s weight, in parts: x [N, H, W, C], gradient [P, M, Q, S, J, C].

    The gradient of the convolution's result [N, I, J, C] is given with its samples as P groups of M, and its rows as Q
    groups of S. result[p, q, k, l, c] = Σ x[n, p(i, k), p(j, l), c] · gradient[p, m, q, s, j, c] over m, s, j, where
    n = p · M + m, i = q · S + s, and p(i, k) are the positions of `Depthwise`. The sum over p and q is the whole
    gradient. The result may be wider than the operands; it is summed in its own type.
    """

    x: Operand
    gradient: Operand
    stride: Ints
    padding: Ints
    dilation: Ints
    result: Result


@reference(MatMul)
def _mm(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    wide = types.torch_dtype(types.spelling_of(op.results[0]))
    return torch.matmul(xs[0].to(wide), xs[1].to(wide))


@reference(SoftmaxMatMul)
def _softmax_mm(op: ir.Operation, xs: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    scores, b = (x.to(types.torch_dtype(types.spelling_of(op.results[0]))) for x in xs)
    softmax = torch.ops.aten._safe_softmax if SoftmaxMatMul.safe.of(op) else torch.softmax
    return torch.matmul(softmax(scores, -1), b), torch.logsumexp(scores, -1)


@verifier(SoftmaxMatMul)
def _verify_softmax_mm(op: ir.Operation) -> str | None:
    (*batch, m, k), (*others, inner, n) = map(types.shape_of, op.operands)
    if (batch, k) != (others, inner):
        return "the operands must have the same batch, and the rows of b are the columns of a"
    right = types.shape_of(op.results[0]) == (*batch, m, n) and types.shape_of(op.results[1]) == (*batch, m)
    return None if right else f"the results must have the shapes {[*batch, m, n]} and {[*batch, m]}"


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


@reference(Depthwise)
def _depthwise(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    sizes, kind = types.static_shape(op.results[0]), types.torch_dtype(types.spelling_of(op.results[0]))
    x, weight = (v.to(kind) for v in xs)
    total = torch.zeros(sizes, dtype=kind)
    for place in itertools.product(*map(range, weight.shape[:2])):
        total += _read(op, x, sizes[1:3], place) * weight[place]
    return total


@reference(DepthwiseWeight)
def _depthwise_weight(op: ir.Operation, xs: Tensors) -> torch.Tensor:
    sizes, kind = types.static_shape(op.results[0]), types.torch_dtype(types.spelling_of(op.results[0]))
    x, gradient = (v.to(kind) for v in xs)
    _, _, q, s, columns, _ = gradient.shape
    total = torch.zeros(sizes, dtype=kind)
    for place in itertools.product(*map(range, sizes[2:4])):
        read = _read(op, x, (q * s, columns), place)
        total[:, :, place[0], place[1]] = (read.view(gradient.shape) * gradient).sum([1, 3, 4])
    return total


def _read(op: ir.Operation, x: torch.Tensor, sizes: Sequence[int], place: Sequence[int]) -> torch.Tensor:
    """What windows along both dims, so many as `sizes` has, read of x at one of their places."""
    for d, (stride, dilation, padding, spread) in enumerate(zip(*window_steps(op), strict=True)):
        at = torch.arange(sizes[d]) * stride + (place[d] * dilation - padding)
        at, rest = at.div(spread, rounding_mode="floor"), at % spread
        inside = ((at >= 0) & (at < x.shape[d + 1]) & (rest == 0)).view([-1 if dim == d + 1 else 1 for dim in range(4)])
        x = x.index_select(d + 1, at.clamp(0, x.shape[d + 1] - 1)) * inside
    return x


def window_steps(op: ir.Operation) -> list[list[int]]:
    """Stride, dilation, padding and spread of a depthwise convolution, or of its weight's gradient, along both dims."""
    if DepthwiseWeight.matches(op):
        cls = DepthwiseWeight
        return [cls.stride.of(op), cls.dilation.of(op), cls.padding.of(op), [1, 1]]
    return [field.of(op) for field in (Depthwise.stride, Depthwise.dilation, Depthwise.padding, Depthwise.spread)]


@verifier(Depthwise)
def _verify_depthwise(op: ir.Operation) -> str | None:
    x, weight = (types.shape_of(v) for v in op.operands)
    result = types.shape_of(op.results[0])
    if len(x) != 4 or len(weight) != 3:
        return f"takes x [N, H, W, C] and a weight [h, w, C], not {list(x)} and {list(weight)}"
    if (result[0], result[-1], weight[-1]) != (x[0], x[-1], x[-1]):
        return f"x {list(x)} and the weight {list(weight)} do not make {list(result)}"
    return _verify_steps(op)


@verifier(DepthwiseWeight)
def _verify_depthwise_weight(op: ir.Operation) -> str | None:
    x, gradient = (types.shape_of(v) for v in op.operands)
    result = types.shape_of(op.results[0])
    if len(x) != 4 or len(gradient) != 6:
        return f"takes x [N, H, W, C] and a gradient [P, M, Q, S, J, C], not {list(x)} and {list(gradient)}"
    p, m, q, *_, channels = gradient
    if (p * m, channels) != (x[0], x[-1]) or len(result) != 5 or (*result[:2], result[-1]) != (p, q, channels):
        return f"x {list(x)} and the gradient {list(gradient)} do not make {list(result)}"
    return _verify_steps(op)


def _verify_steps(op: ir.Operation) -> str | None:
    alike = all(len(given) == 2 for given in window_steps(op))
    return None if alike else "stride, padding, dilation and spread have two numbers each"


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
