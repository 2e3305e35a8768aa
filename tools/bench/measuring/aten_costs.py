"""Computes operations and bytes of ATen's calls into libraries, from the shapes that the profiler recorded.

Each operand and result counts once, as if caches were perfect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Shape = Sequence[int]

_SIZES = {"double": 8, "float": 4, "long": 8, "int": 4, "bool": 1, "c10::Half": 2, "c10::BFloat16": 2}


@dataclass(frozen=True)
class Cost:
    """The cost of one call."""

    operations: int
    """A multiplication and an addition are two."""
    bytes: int
    unit: str
    """The key in Peaks.operations of the peak that limits the call."""


@dataclass(frozen=True)
class AtenCall:
    """A call as the profiler recorded it; an argument that is no tensor has the shape []."""

    op: str
    shapes: Sequence[Shape]
    dtypes: Sequence[str]
    values: Sequence[Any]
    """The arguments, with None in place of each tensor."""


def cost(call: AtenCall) -> Cost | None:
    """The cost of a call; None if the op has no rule or its arguments do not determine the cost."""
    rule = _RULES.get(call.op)
    if rule is None:
        return None
    try:
        operations, elements = rule(call)
    except (IndexError, TypeError, ValueError):
        # The arguments differ between versions of torch.
        return None
    dtype = next((d for d, shape in zip(call.dtypes, call.shapes, strict=False) if shape), "")
    if dtype not in _SIZES:
        return None
    units = {"c10::Half": "half", "c10::BFloat16": "half", "double": "f64"}
    single = "tf32" if "conv" in call.op else "f32"
    return Cost(operations, elements * _SIZES[dtype], units.get(dtype, single))


def _product(first: int) -> Callable[[AtenCall], tuple[int, int]]:
    """The rule for a product of (batches of) matrices: arguments `first` and `first` + 1."""

    def rule(call: AtenCall) -> tuple[int, int]:
        *batch, rows, inner = call.shapes[first]
        columns = call.shapes[first + 1][-1]
        many = math.prod(batch)
        result = many * rows * columns
        added = math.prod(call.shapes[0]) if first else 0
        return 2 * result * inner, many * rows * inner + many * inner * columns + result + added

    return rule


def _convolution(call: AtenCall) -> tuple[int, int]:
    image, weight = call.shapes[:2]
    lists = [value for value in call.values if isinstance(value, list) and len(value) == len(image) - 2]
    if call.op.removeprefix("aten::") == "cudnn_convolution":
        padding, stride, dilation = lists[:3]
    else:
        stride, padding, dilation = lists[:3]
    spatial = [
        (size + 2 * p - d * (kernel - 1) - 1) // s + 1
        for size, kernel, s, p, d in zip(image[2:], weight[2:], stride, padding, dilation, strict=True)
    ]
    result = image[0] * weight[0] * math.prod(spatial)
    residual = result if call.op.endswith("add_relu") else 0
    return 2 * result * math.prod(weight[1:]), math.prod(image) + math.prod(weight) + result + residual


def _convolution_backward(call: AtenCall) -> tuple[int, int]:
    gradient, image, weight = call.shapes[:3]
    masks = [v for v in call.values if isinstance(v, list) and len(v) == 3 and all(isinstance(w, bool) for w in v)]
    wanted = sum(masks[0][:2]) if masks else 2
    one = 2 * math.prod(gradient) * math.prod(weight[1:])
    return wanted * one, wanted * (math.prod(gradient) + math.prod(image) + math.prod(weight))


def _attention(products: int, first: int) -> Callable[[AtenCall], tuple[int, int]]:
    """The rule for attention: `products` products of the size of query by key. The query is argument `first`.

    Causal attention counts in full, unlike in its kernels' authors' figures: half of it need not be computed.
    """

    def rule(call: AtenCall) -> tuple[int, int]:
        query, key, value = call.shapes[first : first + 3]
        *batch, rows, inner = query
        operations = products * math.prod(batch) * rows * key[-2] * (inner + value[-1])
        elements = 2 * math.prod(query) + math.prod(key) + math.prod(value)
        return operations, elements * (2 if first else 1)

    return rule


_RULES: dict[str, Callable[[AtenCall], tuple[int, int]]] = {
    "aten::mm": _product(0),
    "aten::bmm": _product(0),
    "aten::addmm": _product(1),
    "aten::addmm_": _product(1),
    "aten::_addmm_activation": _product(1),
    "aten::baddbmm": _product(1),
    "aten::convolution": _convolution,
    "aten::conv2d": _convolution,
    "aten::cudnn_convolution": _convolution,
    "aten::cudnn_convolution_relu": _convolution,
    "aten::cudnn_convolution_add_relu": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": _attention(2, 0),
    "aten::_scaled_dot_product_cudnn_attention": _attention(2, 0),
    "aten::_scaled_dot_product_efficient_attention": _attention(2, 0),
    # The backward has five products, the forward two.
    "aten::_scaled_dot_product_flash_attention_backward": _attention(5, 1),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention(5, 1),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention(5, 1),
}
