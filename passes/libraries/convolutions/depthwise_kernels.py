"""Turns depthwise convolutions in channels_last, and their gradients, into kernels of ours on a GPU.

    %1 = cuesta.convolution(%x, %w, %b)      %1 = cuesta.depthwise(permute(%x), permute(%w))      summed in f32
      {groups = 96}                      →   %2 = convert(permute(%1) + %b)
      : tensor<32x96x56x56xbf16>

A program computes a few rows and holds their sums in registers, so each element that it loads serves several places of
a window; bias, activation and residual are computed before the result is written. On an H100 in bf16, µs of the kernel
and of cuDNN in channels_last: 32x96x56x56 with 7x7 windows 47 and 73, 32x768x7x7 8 and 18, 64x480x14x14 with 5x5 19 and
28; row-major, ATen takes 330, 47 and 104. cuDNN's gradient of the images takes 167, 28 and 43 (decision 30).

The gradient of a weight is a sum over all windows, in as many parts as programs fill a GPU, which another kernel adds
up. On an H200 in bf16 both kernels take 47 µs for 64x144x56x56 with 3x3 windows where cuDNN takes 71, and 45 for
64x240x28x28 with 5x5 windows where it takes 49. cuDNN's is as fast or faster for larger windows (decision 67).

With a stride, each element of the images' gradient has only some places of a window: a thread has so many rows and
columns that these are the same for all threads. On an H200 64x96x112x112 with 3x3 windows takes 54 µs where cuDNN
takes 242, and 64x240x56x56 with 5x5 windows 47 where it takes 343.

Zeros that are put around the images for this convolution alone, as on two sides where a stride of 2 is to halve them,
are not written: the kernel counts what lies outside as 0, and whatever makes the images has its rows side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.aten import Call
from cuesta.dialects.cuesta.contraction import Convolution, Depthwise, DepthwiseWeight, convolution_arguments
from cuesta.dialects.cuesta.shape import Cat
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import opmath, shape_of, spelling_of, static, static_shape
from cuesta.passes.analysis.layout import CHANNELS_LAST, FROM_CHANNELS_LAST
from cuesta.passes.analysis.match import number
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.graph.reshapes.split_readers import Merged, split_readers
from cuesta.passes.infra.graph_rewrite import erase_dead, replace, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    completed,
    given_gradients,
    gradient_arguments,
)
from cuesta.sizes import Number, hint

_B = GraphBuilder()

#: The most places of a small window: its weight's gradient is a kernel of ours, and with strides of up to
#: `_MOST_STRIDE` the images' gradient.
_SMALL, _MOST_STRIDE = 25, 4
#: Of a gradient of a weight: about how many channels a program has, and the programs that fill a GPU, of windows of up
#: to 3x3 places and of larger ones, which take twice the registers.
_CHANNELS, _FEW, _PROGRAMS, _PROGRAMS_OF_MORE = 64, 9, 528, 264
#: The most places of a window: the kernel's code has a multiplication for each, times the rows of a program.
_MOST_PLACES = 81
_FLOATS = frozenset({"f32", "bf16", "f16"})


@register_pass("depthwise-kernels")
class DepthwiseKernels(Pass):
    """Rewrites depthwise convolutions in channels_last as `cuesta.depthwise`, on a GPU."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).gpu:
            rewrite_ops(module, {Convolution.OPERATION_NAME: _convolution, Call.OPERATION_NAME: _gradients})
            erase_dead(module)


def _convolution(op: ir.Operation) -> None:
    """Replaces a convolution, and computes what follows it in the order of its kernel, whatever views lie between."""
    x, weight, *bias = op.operands
    stride, padding, dilation, *_ = parameters = convolution_arguments(op)
    if not (_is_depthwise(x, weight, parameters) and _in_channels_last(op, 0)):
        return
    inner, before = _without_zeros(x)
    if 1 not in shape_of(inner)[2:]:
        x, padding = inner, [own + more for own, more in zip(padding, before, strict=True)]
    elif not _reads(x, weight, padding):
        return
    total = _depthwise(x, weight, op.results[0], stride, padding, dilation)
    for b in bias:
        total = _B.pointwise("add", total, _B.convert(b, spelling_of(total)))
    images = _images(total, op.results[0])
    replace(op, [result := images.build()])
    split_readers(result, images)


def _gradients(op: ir.Operation) -> Sequence[ir.Value] | None:
    """The gradients, by kernels of ours."""
    if not are_gradients(op):
        return None
    gradient, x, weight, _, stride, padding, dilation, *others, _ = gradient_arguments(op)
    if not _is_depthwise(x, weight, [stride, padding, dilation, *others]):
        return None
    stands, made = given_gradients(op), dict[int, ir.Value]()
    last = _in_channels_last(op, stands.index(0)) if 0 in stands else MemoryOrder().order(x) == CHANNELS_LAST
    if 0 in stands and last and _is_read_back(gradient, weight, stride, padding):
        # An image's element is read by the window at its place plus the padding, less the place in the window.
        before, apart = ([-n for n in numbers] for numbers in (padding, dilation))
        made[0] = _images(_depthwise(gradient, weight, x, [1, 1], before, apart, spread=stride), x).build()
    if 1 in stands and last and _has_windows(gradient, x, weight, padding):
        made[1] = _weight_gradient(gradient, x, weight, stride, padding, dilation)
    return completed(op, made) if made else None


def _is_read_back(gradient: ir.Value, weight: ir.Value, stride: Sequence[int], padding: Sequence[int]) -> bool:
    """Whether a kernel of ours computes the images' gradient. With a stride its code has all places of a window one
    after the other, and a thread as many rows and columns as the stride."""
    is_short = max(stride) == 1 or (_is_small(weight) and max(stride) <= _MOST_STRIDE)
    return is_short and _reads(gradient, weight, padding)


def _has_windows(gradient: ir.Value, x: ir.Value, weight: ir.Value, padding: Sequence[int]) -> bool:
    """Whether a kernel of ours sums over the windows: there are several, and they are small."""
    return _is_small(weight) and _reads(x, weight, padding) and max(map(static, shape_of(gradient)[2:])) > 1


def _is_small(weight: ir.Value) -> bool:
    return math.prod(static_shape(weight)[2:]) <= _SMALL


def _weight_gradient(
    gradient: ir.Value,
    x: ir.Value,
    weight: ir.Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> ir.Value:
    """The gradient of a weight [C, 1, h, w]. Threads have windows side by side, so rows and columns change places where
    there is one column, as in a convolution of tokens."""
    order = [2, 3] if shape_of(gradient)[3] != 1 else [3, 2]
    samples, channels = shape_of(gradient)[:2]
    rows, columns = (static(shape_of(gradient)[d]) for d in order)
    window = [static_shape(weight)[d] for d in order]
    programs = _PROGRAMS if math.prod(window) <= _FEW else _PROGRAMS_OF_MORE
    groups, row_groups = _groups(samples, rows, programs / -(-static(channels) // _CHANNELS))
    in_group = static(samples) // static(groups) if groups != samples else 1
    sizes = [groups, in_group, row_groups, rows // row_groups, columns, channels]
    result = types.tensor([groups, row_groups, *window, channels], opmath(spelling_of(x)))
    images, windows = (_B.permute(v, [0, *order, 1]) for v in (x, gradient))
    steps = ([given[d - 2] for d in order] for given in (stride, padding, dilation))
    parts = DepthwiseWeight(images, _B.reshape(windows, sizes), *steps, result).result
    total = _B.convert(_B.reduce("sum", parts, [0, 1]), spelling_of(weight))
    return _B.reshape(_B.permute(total, [2, *(d - 2 for d in order)]), shape_of(weight))


def _groups(samples: Number, rows: int, wanted: float) -> tuple[Number, int]:
    """How many groups of samples, and of the rows of each, make for about as many parts as wanted. There are groups of
    rows where there are too few samples."""
    if isinstance(samples, int) and samples >= wanted:
        return _divisor(samples, wanted), 1
    return samples, _divisor(rows, wanted / hint(samples))


def _divisor(n: int, wanted: float) -> int:
    """The divisor of n that is nearest to what is wanted, as a ratio."""
    return min((d for d in range(1, n + 1) if n % d == 0), key=lambda d: max(d / wanted, wanted / d))


def _images(total: ir.Value, like: ir.Value) -> Merged:
    """The sums of a kernel as images [N, C, H, W] of the type of `like`."""
    return Merged(_B.convert(total, spelling_of(like)), tuple((d,) for d in FROM_CHANNELS_LAST))


def _is_depthwise(x: ir.Value, weight: ir.Value, parameters: Sequence[Any]) -> bool:
    """Whether a convolution with these parameters, as aten.convolution takes them, has a window of its own for each
    channel, and sizes that a kernel takes."""
    *_, transposed, _, groups = parameters
    channels, inner, *window = shape_of(weight)
    sizes: list[Number] = [*shape_of(x)[1:], channels, *window]
    if len(window) != 2 or transposed or spelling_of(x) not in _FLOATS or any(type(n) is not int for n in sizes):
        return False
    if inner != 1 or not groups == channels == shape_of(x)[1] or groups == 1 or 0 in shape_of(x):
        return False
    return 1 < window[0] * window[1] <= _MOST_PLACES


def _without_zeros(images: ir.Value) -> tuple[ir.Value, list[int]]:
    """Images [N, C, H, W] without the zeros that one reader wants around them, and how many rows and columns of these
    were put before them."""
    before = [0, 0]
    while (op := maker(images, Cat)) is not None and len(users(images)) == 1 and Cat.dim.of(op) >= 2:
        first, last = op.operands
        if number(last) == 0:
            images = first
        elif number(first) == 0:
            before[Cat.dim.of(op) - 2] += static(shape_of(first)[Cat.dim.of(op)])
            images = last
        else:
            break
    return images, before


def _reads(images: ir.Value, weight: ir.Value, padding: Sequence[int]) -> bool:
    """Whether a kernel can read the images' windows: it sees the images without dims of size 1."""
    places = zip(shape_of(images)[2:], shape_of(weight)[2:], padding, strict=True)
    return all(size != 1 or (window == 1 and around == 0) for size, window, around in places)


def _in_channels_last(op: ir.Operation, result: int) -> bool:
    """Whether a result is in channels_last, as choose-layouts, or the user's own strides, have it."""
    strides = RESULT_STRIDES.find(op)
    return strides is not None and strides[result][1] == 1


def _depthwise(
    x: ir.Value,
    weight: ir.Value,
    like: ir.Value,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    spread: Sequence[int] = (1, 1),
) -> ir.Value:
    """The convolution [N, H, W, C] in the type of its sums, with the sizes of `like`, [N, C, H, W]."""
    sizes, spelling = shape_of(like), opmath(spelling_of(x))
    by_place = _B.permute(_B.reshape(weight, [shape_of(weight)[0], *shape_of(weight)[2:]]), [1, 2, 0])
    result = types.tensor([sizes[d] for d in CHANNELS_LAST], spelling)
    return Depthwise(_B.permute(x, CHANNELS_LAST), by_place, stride, padding, dilation, spread, result).result
