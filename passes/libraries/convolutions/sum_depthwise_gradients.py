"""Rewrites the weight's gradient of a depthwise convolution with a large window as a sum, on a CPU.

    %dw = aten.convolution_backward(%g, %x, %w)      %1 = unfold(unfold(pad(permute(%x))))   a window for each place
      {groups = 960} : tensor<960x1x5x5xf32>     →   %2 = cuesta.sum(%1 * permute(%g))       over images and places
                                                     %dw = reshape(permute(%2))

oneDNN has a kernel only for windows of up to 3x3. It computes larger ones in blocks of 16 x 16 channels, of which it
needs one row, in 256 times the weight's memory. For the sum, the windows are a view of a padded copy of the images.
Where this copy is more than twice as large as oneDNN's memory, in large batches, the sum is not worth it.

On one thread of an AMD EPYC (Zen 5) the sum takes 0.2 to 0.65 of oneDNN's time for the four shapes of MobileNetV3.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of, static_shape
from cuesta.passes.analysis.layout import CHANNELS_LAST
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    call_for,
    given_gradients,
    gradient_arguments,
    replace_chosen,
)
from cuesta.sizes import estimate

_B = GraphBuilder()

#: The largest window for which oneDNN has a kernel.
_LARGEST = 3
#: The most elements of padded images per element of the weight; with more, oneDNN computes the gradient.
_MOST = 2 * 256


@register_pass("sum-depthwise-gradients")
class SumDepthwiseGradients(Pass):
    """Rewrites the weights' gradients of depthwise convolutions as sums."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).kind == "cpu":
            replace_chosen(module, _is_chosen, _apart)


def _is_chosen(op: ir.Operation, memory: MemoryOrder) -> bool:
    """Whether an op computes a gradient that this pass rewrites, in f32, with images in channels_last."""
    if not are_gradients(op):
        return False
    _, x, weight, _, _, padding, dilation, transposed, _, groups, wanted = gradient_arguments(op)
    if len(shape_of(x)) != 4 or spelling_of(x) != "f32" or transposed or not wanted[1]:
        return False
    channels, inner, *window = shape_of(weight)
    if _padded(x, padding) > _MOST * estimate(shape_of(weight)):
        return False
    depthwise = inner == 1 and groups == channels == shape_of(x)[1] and groups > 1
    plain = all(isinstance(n, int) for n in window) and all(n == 1 for n in dilation)
    return depthwise and plain and max(window) > _LARGEST and memory.order(x) == CHANNELS_LAST


def _padded(images: ir.Value, padding: list[int]) -> int:
    """About how many elements the padded images have."""
    n, c, *places = shape_of(images)
    return estimate((n, c, *(size + 2 * around for size, around in zip(places, padding, strict=True))))


def _apart(op: ir.Operation) -> list[ir.Value]:
    """The results of the call, with the weight's gradient as a sum."""
    gradient, x, weight, _, stride, padding, *_ = gradient_arguments(op)
    stands = given_gradients(op)
    made = {1: _weight_gradient(gradient, x, weight, stride, padding)}
    if 0 in stands:
        made |= call_for(op, [0])
    if 2 in stands:
        made[2] = _B.reduce("sum", gradient, [0, 2, 3])
    return [made[position] for position in stands]


def _weight_gradient(
    gradient: ir.Value, x: ir.Value, weight: ir.Value, stride: list[int], padding: list[int]
) -> ir.Value:
    images, places = (_B.permute(v, CHANNELS_LAST) for v in (x, gradient))
    n, height, width, c = shape_of(places)
    _, _, h, w = static_shape(weight)
    for dim, amount in zip((1, 2), padding, strict=True):
        images = _B.pad(images, dim, amount, amount)
    windows = _B.unfold(images, 1, height, h, stride[0])
    windows = _B.permute(_B.unfold(windows, 2, width, w, stride[1]), [4, 5, 0, 1, 2, 3])
    # An unfold needs its operand in memory. One with windows of one element keeps a kernel from computing the gradient
    # again for each element of a window.
    places = _B.reshape(_B.unfold(places, 1, height, 1), [n, height, width, c])
    product = _B.pointwise("mul", windows, _B.expand(places, [h, w, n, height, width, c]))
    return _B.reshape(_B.permute(_B.reduce("sum", product, [2, 3, 4]), [2, 0, 1]), shape_of(weight))
