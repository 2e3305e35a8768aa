"""Packs weights of f32 convolutions with oneDNN for `freezing`, and defines the convolutions that take them.

`mkldnn._reorder_convolution_weight` gives an opaque tensor. It has no address and no strides, so it cannot be an
argument of a program. The argument therefore holds handles: int64 [2], the weight's and the bias's (0 if there is
none). The opaque tensors live as long as the argument.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cuesta.runtime.handles import make_handles, of_handle, steal
from cuesta.torch_private.ops import OpOverload

#: Activations without parameters that oneDNN fuses into a convolution: ATen's op → oneDNN's name.
ACTIVATIONS: dict[OpOverload, str] = {
    torch.ops.aten.relu.default: "relu",
    torch.ops.aten.sigmoid.default: "sigmoid",
    torch.ops.aten.tanh.default: "tanh",
    torch.ops.aten.hardswish.default: "hardswish",
    torch.ops.aten.silu.default: "swish",
    torch.ops.aten.hardsigmoid.default: "hardsigmoid",
}

#: Activations that oneDNN fuses after a sum.
ACTIVATIONS_OF_SUMS = {torch.ops.aten.relu.default: "relu"}


def can_pack() -> bool:
    """Whether this torch can pack weights."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_convolution_pointwise")


def pack(
    weight: Tensor,
    bias: Tensor | None,
    padding: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    images: Sequence[int] | None,
) -> Tensor:
    """Packs a weight of f32 [O, I, H, W], for images of these sizes if they are known; returns handles of it and of the
    bias."""
    packed = torch.ops.mkldnn._reorder_convolution_weight(
        weight.contiguous(), list(padding), list(stride), list(dilation), groups, images
    )
    handles = make_handles([packed] if bias is None else [packed, bias.contiguous()])
    held = torch.tensor([*handles, 0][:2])
    weakref.finalize(held, steal, *handles).atexit = False
    return held


#: The parameters of each op after its images.
_REST = (
    "Tensor packed, bool has_bias, SymInt[] window, SymInt[] padding, SymInt[] stride, SymInt[] dilation, "
    "SymInt groups, str activation, bool row_major"
)


@torch.library.custom_op("cuesta::packed_convolution", mutates_args=(), schema=f"(Tensor x, {_REST}) -> Tensor")
def packed_convolution(x: Tensor, *rest: Any) -> Tensor:
    """The convolution of x by a packed weight of sizes `window`, then `activation` ("none" or one of ACTIVATIONS). The
    result is row-major if `row_major`, else channels_last. Programs call oneDNN's op
    (dialects/host/packed_convolutions.py)."""
    *held, activation, row_major = _held(*rest)
    result: Tensor = torch.ops.mkldnn._convolution_pointwise(x, *held, activation, [], "")
    return result.contiguous() if row_major else result


@torch.library.custom_op(
    "cuesta::packed_convolution_add", mutates_args=(), schema=f"(Tensor x, Tensor other, {_REST}) -> Tensor"
)
def packed_convolution_add(x: Tensor, other: Tensor, *rest: Any) -> Tensor:
    """As packed_convolution, plus `other`, before the activation."""
    *held, activation, row_major = _held(*rest)
    last = None if activation == "none" else activation
    binary = torch.ops.mkldnn._convolution_pointwise.binary
    result: Tensor = binary(x, other, *held, "add", None, last, [], "")
    return result.contiguous() if row_major else result


@torch.library.custom_op(
    "cuesta::packed_convolution_add_", mutates_args=("other",), schema=f"(Tensor x, Tensor(a1!) other, {_REST}) -> ()"
)
def packed_convolution_add_(x: Tensor, other: Tensor, *rest: Any) -> None:
    """As packed_convolution_add, with the result written over `other`."""
    other.copy_(packed_convolution_add(x, other, *rest))


def _held(packed: Tensor, has_bias: bool, _: Sequence[int], *places: Any) -> tuple[Any, ...]:
    """The arguments with handles replaced by their tensors, and without the weight's sizes."""
    weight, bias = packed.tolist()
    return of_handle(weight), of_handle(bias) if has_bias else None, *places


@packed_convolution.register_fake
def _fake(x: Tensor, *rest: Any) -> Tensor:
    _, _, window, padding, stride, dilation, groups, _, row_major = rest
    zeros = [0] * len(padding)
    result = torch.ops.aten.convolution(x, x.new_empty(window), None, stride, padding, dilation, False, zeros, groups)
    kept = torch.contiguous_format if row_major else torch.channels_last
    return torch.empty_like(result, memory_format=kept)


@packed_convolution_add.register_fake
def _fake_add(x: Tensor, _: Tensor, *rest: Any) -> Tensor:
    return _fake(x, *rest)
