"""Chooses the layout in which oneDNN moves less data for a convolution, and the convolutions that become products of
patches.

One rule serves each graph alone (`choose-layouts`, `multiply-convolutions`) and the tensors that the two graphs of a
training step share (`frontend/saved_layouts`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from cuesta.sizes import Number, estimate


def moves_less_in_channels_last(images: Sequence[Number], weight: Sequence[Number], results: Sequence[Number]) -> bool:
    """Whether the images and results that a row-major call converts have no fewer elements than the weight [O, I, H,
    W], which a call in channels_last converts.

    On one core of a Xeon with AVX-512, in ms with the weight's conversion, channels_last against row-major: 2x64x56x56,
    3x3 to 64, 2.80 for 3.12; 2x256x14x14, 3x3 to 256, 3.0 for 2.9; 2x512x7x7, 3x3 to 512, 5.3 for 3.6; 2x960x7x7, 5x5
    in 960 groups, 0.16 for 0.25. In bf16, on one core of an EPYC (Zen 5), Inductor's time over ours with this rule and
    row-major throughout: a ResNet 1.04 and 0.83, MobileNetV2 1.24 and 0.86, their training steps 1.10 and 0.92, 1.09
    and 0.78.
    """
    *_, height, width = weight
    converted = 0 if height == width == 1 else estimate(weight)
    return converted <= estimate(images) + estimate(results)


def suits_channels_last(
    images: Sequence[Number], weight: Sequence[Number], results: Sequence[Number], parameters: Sequence[Any]
) -> bool:
    """Whether oneDNN is to compute a convolution in channels_last. `parameters` are those of aten.convolution from the
    stride on."""
    if cuts_patches(images, weight, parameters) or overruns_in_channels_last(weight, parameters):
        return False
    return moves_less_in_channels_last(images, weight, results)


def overruns_in_channels_last(weight: Sequence[Number], parameters: Sequence[Any]) -> bool:
    """Whether oneDNN may write out of bounds when it computes the gradient of a weight [O, I, H, W] in channels_last.

    It may if the window is 1x1, the stride is larger than 1, and a vector register has more elements than the images
    have channels. In row-major memory it does not. `parameters` are those of aten.convolution from the stride on.

    Seen with oneDNN 3.12 in f32 with AVX2. Images 2x3x224x224, a weight 8x3x1x1 and a stride of 2 end the process with
    "free(): invalid next size", eager's process too, if images and gradients are in channels_last. So do 1, 4, 5 and 7
    channels, and a stride of 4. 8 channels, groups, bf16, and a stride of 1 do not.
    """
    stride, *_, groups = parameters
    _, channels, *window = weight
    is_strided = any(n != 1 for n in stride) and all(n == 1 for n in window)
    return is_strided and groups == 1 and estimate([channels]) < _VECTOR


def padded_group(channels: Number) -> Number:
    """The channels that a group of a convolution gets in channels_last, with zeros behind its own, so that cuDNN has a
    kernel for it; `channels` where it has one. `pad-groups` adds them.

    On an H100, cuDNN 9.19, bf16, 32 images of 28x28, about 240 channels in groups, µs of the convolution and of both of
    its gradients, row-major, in channels_last, and in channels_last with padded groups:

    | channels of a group | row-major | channels_last | padded |
    | --- | --: | --: | --: |
    | 8, 16, 32 | 88 + 149, 85 + 141, 92 + 130 | 52 + 90, 54 + 83, 52 + 78 | |
    | 24 | 99 + 177 | 210 + 402 | 57 + 88 |
    | 40 | 97 + 226 | 224 + 396 | 51 + 232 |
    | 48, 56 | 100 + 284, 169 + 296 | 199 + 419, 145 + 350 | 55 + 211, 52 + 164 |
    | 64 | 75 + 211 | 54 + 156 | |
    | 80, 112, 120 | 118 + 225, 89 + 184, 90 + 190 | 231 + 318, 182 + 379, 197 + 398 | 60 + 96, 52 + 84, 41 + 84 |
    """
    if not isinstance(channels, int) or channels in _GROUPS or channels % _TILE == 0:
        return channels
    return next((n for n in _GROUPS if n > channels), math.ceil(channels / _TILE) * _TILE)


def slow_in_channels_last(weight: Sequence[Number], groups: int) -> bool:
    """Whether cuDNN computes a grouped convolution on tensor cores slower in channels_last than row-major: cuDNN has no
    kernel for such groups in channels_last, and padding (`padded_group`) would add too many channels. `weight` is
    [O, I, H, W]; I counts the channels of one group."""
    outer, inner, *_ = weight
    if groups == 1:
        return False
    if not isinstance(outer, int) or not isinstance(inner, int):  # pad-groups takes no symbolic sizes
        channels = estimate([inner])
        return channels > _TILE and channels % _TILE != 0
    if inner == 1 or outer == groups:
        return False
    return any(estimate([padded_group(n)]) > _MOST_ADDED * n for n in (inner, outer // groups))


def cuts_patches(
    images: Sequence[Number], weight: Sequence[Number], parameters: Sequence[Any], on_gpu: bool = False
) -> bool:
    """Whether a convolution with these `parameters` (stride and what follows it in aten.convolution) cuts an image into
    patches that do not overlap, and is faster as a product of the patches by the weight: a vision transformer's first
    layer.

    oneDNN pads few channels to a full vector: the gradient of a weight of 2.4 MB, 768x3x16x16, takes it 10 MB a thread.
    On one core of a Xeon, in ms, two images of 224x224, forward 6.9 for 8.6, that gradient 7.2 for 8.8; with windows of
    32x32 26.8 for 37.6 and 25.3 for 43.1. Windows of 4x4 are slower as products: 3.9 for 1.5.

    On a GPU cuDNN pads few channels to eight: on an H100, in bf16, 64x3x224x224 takes 130 µs with windows of 4x4, and
    45 with 16x16, where the copy of the patches moves 39 MB, which is 12 µs at the memory's speed.
    """
    if not _side_by_side(images, weight, parameters):
        return False
    (_, channels, *_), (*_, width) = images, weight
    return channels < _VECTOR and width >= (_LEAST_RUN_ON_GPU if on_gpu else _LEAST_RUN)


def moves_less_as_product(
    images: Sequence[Number], weight: Sequence[Number], parameters: Sequence[Any], element: str
) -> bool:
    """Whether a convolution of `element` with these `parameters`, on a CPU, cuts images into patches that are few
    beside its weight. A product copies the patches and reads the weight as it lies. For oneDNN's convolution ATen
    copies the weight to channels_last, element by element, and oneDNN converts that copy again.

    On one thread of an EPYC (Zen 5), in µs in bf16, with what a call costs: 2x256x8x8, 2x2 to 512, 203 for 555;
    2x384x14x14, 2x2 to 768, 890 for 1558; 1x32x32x32, 8x8 to 32, 65 for 156; 2x192x28x28, 2x2 to 384, as many patches
    as weights, 913 for 993; 2x64x32x32, 2x2 to 128, four times as many, 269 for 238. In f32 the first four 328 for
    665, 1919 for 3616, 58 for 122, 2178 for 1939, and 2x128x16x16, 2x2 to 256, half as many, 363 for 365. Training
    steps in autocast: ConvNeXt's takes 0.94 of the time, SegFormer's 0.86.
    """
    most = _MOST_PATCHES.get(element, 0.0) * estimate(weight)
    return _side_by_side(images, weight, parameters) and estimate(images) <= most


def _side_by_side(images: Sequence[Number], weight: Sequence[Number], parameters: Sequence[Any]) -> bool:
    """Whether the windows of a convolution cover each image without a gap, none overlapping another."""
    stride, padding, dilation, transposed, _, groups = parameters
    (_, channels, *places), (_, _, *window) = images, weight
    if transposed or groups != 1 or len(places) != 2 or any(padding) or any(n != 1 for n in dilation):
        return False
    if any(type(n) is not int for n in (channels, *places, *weight)) or list(stride) != list(window):
        return False
    return all(n % k == 0 for n, k in zip(places, window, strict=True))


#: Channels of a group for which cuDNN has kernels in channels_last, besides multiples of `_TILE`; and how many times as
#: many a group may get.
_GROUPS, _TILE, _MOST_ADDED = (1, 2, 4, 8, 16, 32), 64, 1.7
#: The most elements of patches for one of the weight, with which a product moves less than a convolution.
_MOST_PATCHES = {"bf16": 1.0, "f32": 0.5}
#: Floats in the widest vector register.
_VECTOR = 16
#: The fewest contiguous elements of a patch for which copying it is cheap.
_LEAST_RUN, _LEAST_RUN_ON_GPU = 8, 4
