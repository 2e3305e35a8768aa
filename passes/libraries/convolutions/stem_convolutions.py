"""Reads the windows of images of few channels in a kernel of ours, which multiplies them and computes what follows.

    %1 = cuesta.convolution(%x, %w)            %1 = cuesta.index(%x, channel, row, column of each place of a window)
      : tensor<64x3x224x224xbf16>,         →   %2 = cuesta.where(inside the image, %1, 0) : tensor<64x112x112x27xbf16>
        tensor<32x3x3x3xbf16>                  %3 = cuesta.mm(%2, permute(reshape(%w))) {product = "128x32x32/4/2"}
    %2 = norm, relu6 of %1                     %4 = permute(%3) : tensor<64x32x112x112xf32>
                                               %5 = norm, relu6 of %4

Most networks for images begin so. cuDNN's kernels for tensor cores take multiples of 8 channels: for 3 it copies the
images to channels_last, and falls back to a kernel without tensor cores (127 µs on an H100 for the layer above); then a
kernel for the norm reads and writes the result again. Here nothing is copied, in whatever order the images are: a
program reads the elements of its windows one by one, most of them from the first-level cache.
"""

from __future__ import annotations

import functools
import math

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import convolution_arguments
from cuesta.dialects.cuesta.indexing import Index
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import byte_size, spelling_of, static_shape, tensor
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_epilogue import TARGETS
from cuesta.passes.libraries.convolutions.convolution_gradients import replace_chosen
from cuesta.passes.libraries.convolutions.pointwise_convolutions import ALIGNED, is_narrow, multiplied
from cuesta.passes.libraries.products.tiles import plans

_B = GraphBuilder()
#: The most channels of the images, and the most elements of a window.
_FEW, _WINDOW = 4, 64
#: The most channels of the result, which fill the columns of one block: each window is read once.
_COLUMNS = 128


@register_pass("stem-convolutions")
class StemConvolutions(Pass):
    """Rewrites convolutions of images of few channels as products with a kernel of ours, where something follows."""

    def run(self, module: ir.Module) -> None:
        kind = target_of(module).kind
        if kind in TARGETS:
            replace_chosen(module, lambda op, _: is_narrow(op, kind) and _has_few_channels(op), _product)


def _has_few_channels(op: ir.Operation) -> bool:
    results, channels, *window = static_shape(op.operands[1])
    elements = channels * math.prod(window)
    return (
        channels <= _FEW
        and elements <= _WINDOW
        and results <= _COLUMNS
        and results * byte_size(spelling_of(op.operands[0])) % ALIGNED == 0
    )


def _product(op: ir.Operation) -> list[ir.Value]:
    windows = _windows(op)
    n, down, across, elements = static_shape(windows)
    (results, *_), width = static_shape(op.operands[1]), byte_size(spelling_of(windows))
    best, *_ = plans(n * down, across, results, elements, width)
    return multiplied(op, windows, best.tile)


def _windows(op: ir.Operation) -> ir.Value:
    """The elements of each window, as [N, windows down, windows across, channels * places]; 0 beyond the image."""
    x, weight, *_ = op.operands
    (_, _, *sizes), (_, channels, *window) = static_shape(x), static_shape(weight)
    n, _, *counts = static_shape(op.results[0])
    stride, padding, dilation, *_ = convolution_arguments(op)
    elements = channels * window[0] * window[1]
    shape = [*counts, elements]
    # With all loops from the start, so that the kernel of the product computes the positions, too.
    channel, place = _divided(_B.expand(_B.ramp(elements), shape), window[0] * window[1])
    read, inside = [channel], []
    for d, part in enumerate(_divided(place, window[1])):
        begins = _B.expand(_B.along(shape, d, stride[d]), shape)
        at = _B.pointwise("add", begins, _B.with_number("mul", part, dilation[d]))
        at = _B.with_number("sub", at, padding[d])
        if padding[d]:
            inside += [_B.with_number("ge", at, 0), _B.with_number("lt", at, sizes[d])]
            at = _B.with_number("minimum", _B.with_number("maximum", at, 0), sizes[d] - 1)
        read.append(at)
    found = Index(x, read, [1, 2, 3], tensor([n, *shape], spelling_of(x))).result
    Index.in_range.mark(found.owner)
    if not inside:
        return found
    is_inside = functools.reduce(lambda a, b: _B.pointwise("bitwise_and", a, b), inside)
    return _B.where(is_inside, found, _B.constant(0.0, spelling_of(x)))


def _divided(x: ir.Value, by: int) -> tuple[ir.Value, ir.Value]:
    """The quotient and the remainder of integers from 0 on."""
    quotient = _B.with_number("trunc_divide", x, by)
    return quotient, _B.pointwise("sub", x, _B.with_number("mul", quotient, by))
