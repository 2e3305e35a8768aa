"""Pads the channels of groups for cuDNN's grouped convolutions in channels_last, on CUDA.

    %1 = cuesta.convolution(%x, %w) {groups = 10}        %2 = cuesta.window(%x)         : 32x28x28x10x32
      %x : tensor<32x240x28x28xbf16>                →    %3 = cuesta.window(%w)         : 10x32x3x3x32
      %w : tensor<240x24x3x3xbf16>                       %4 = cuesta.convolution(%2, %3) {groups = 10}
                                                         %1 = cuesta.slice(%4)          : 32x28x28x10x24

cuDNN has kernels for groups of 32 channels and none for 24: for these it moves images, weight and results into other
memory and back in every call, at a tenth of the memory's speed. RegNet's groups have 8 to 232 channels, multiples of 8.
Here they get channels of zeros behind their own, in images and weight, which change no result. Gradients are computed
with the same groups. `policy/convolution_layouts` says how many channels a group gets, and has what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.aten import Call, OperandRef, decode_call, encode_call
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.cuesta.indexing import Window
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.layout import CHANNELS_LAST, FROM_CHANNELS_LAST
from cuesta.passes.graph.reshapes.split_readers import Merged, split_readers
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.choose_layouts import channels_last, is_channels_last
from cuesta.passes.libraries.convolutions.convolution_epilogue import INTERPRETER, TARGETS, is_for_tensor_cores
from cuesta.passes.libraries.convolutions.convolution_gradients import (
    are_gradients,
    given_gradients,
    gradient_arguments,
)
from cuesta.passes.libraries.convolutions.pad_channels import rebuilt
from cuesta.policy.convolution_layouts import padded_group
from cuesta.sizes import Number

_B = GraphBuilder()
#: The places of the gradients among those of a convolution.
_IMAGES, _WEIGHT, _BIAS = range(3)


@register_pass("pad-groups")
class PadGroups(Pass):
    """Pads the channels of grouped convolutions, and of their gradients, group by group."""

    def run(self, module: ir.Module) -> None:
        kind = target_of(module).kind
        if kind not in TARGETS:
            return
        with module.context:
            for function in functions(module):
                for op in [view.operation for view in function.regions[0].blocks[0].operations]:
                    with ir.InsertionPoint(op), op.location:
                        if Convolution.matches(op):
                            _convolution(op, kind)
                        elif are_gradients(op):
                            _gradients(op, kind)
        erase_dead(module)


@dataclass(frozen=True)
class _Groups:
    """The groups of a convolution: how many, and the channels of each, in images and results, before and after."""

    count: int
    images: tuple[int, int]
    results: tuple[int, int]

    @staticmethod
    def of(weight: ir.Value, groups: int) -> _Groups | None:
        """Those of a weight [O, I, H, W]; None if none are padded. A depthwise convolution has none to pad."""
        sizes = shape_of(weight)
        if groups == 1 or len(sizes) != 4 or not all(isinstance(n, int) and n > 0 for n in sizes):
            return None
        outer, inner, *_ = static_shape(weight)
        outer //= groups
        images, results = ((n, padded_group(n)) for n in (inner, outer))
        if inner == 1 or (images[0], results[0]) == (images[1], results[1]):
            return None
        assert isinstance(images[1], int) and isinstance(results[1], int)  # of sizes that are numbers
        return _Groups(groups, (images[0], images[1]), (results[0], results[1]))

    def padded_images(self, x: ir.Value) -> ir.Value:
        return self._padded(x, self.images)

    def padded_results(self, x: ir.Value) -> ir.Value:
        """Results, or their gradient."""
        return self._padded(x, self.results)

    def padded_bias(self, bias: ir.Value) -> ir.Value:
        own, wide = self.results
        split = _B.reshape(bias, [self.count, own])
        return _B.reshape(_with_zeros(split, [self.count, wide]), [self.count * wide])

    def padded_weight(self, weight: ir.Value) -> ir.Value:
        (inner, wide), (own, outer) = self.images, self.results
        rows, window = _rows(weight), static_shape(weight)[2:]
        split = _B.reshape(rows, [self.count, own, *window, inner])
        whole = _with_zeros(split, [self.count, outer, *window, wide])
        return _images(_B.reshape(whole, [self.count * outer, *window, wide]))

    def images_of(self, x: ir.Value) -> Merged:
        """Images, or their gradient, without what was added to them."""
        return self._part(x, self.images)

    def results_of(self, x: ir.Value) -> Merged:
        """A convolution's results without what was added to them."""
        return self._part(x, self.results)

    def cut_bias(self, bias: ir.Value) -> ir.Value:
        own, wide = self.results
        split = _B.reshape(bias, [self.count, wide])
        return _B.reshape(_B.slice(split, 1, 0, own), [self.count * own])

    def cut_weight(self, weight: ir.Value) -> ir.Value:
        (inner, wide), (own, outer) = self.images, self.results
        rows, window = _rows(weight), static_shape(weight)[2:]
        split = _B.reshape(rows, [self.count, outer, *window, wide])
        part = _B.slice(_B.slice(split, 1, 0, own), 2 + len(window), 0, inner)
        return _images(_B.reshape(part, [self.count * own, *window, inner]))

    def _padded(self, x: ir.Value, widths: tuple[int, int]) -> ir.Value:
        own, wide = widths
        if own == wide:
            return x
        *places, _ = static_shape(rows := _rows(x))
        whole = _with_zeros(_B.reshape(rows, [*places, self.count, own]), [*places, self.count, wide])
        return _images(_B.reshape(whole, [*places, self.count * wide]))

    def _part(self, x: ir.Value, widths: tuple[int, int]) -> Merged:
        own, wide = widths
        *places, _ = static_shape(rows := _rows(x))
        part = _B.slice(_B.reshape(rows, [*places, self.count, wide]), len(places) + 1, 0, own)
        return Merged(part, ((0,), (3, 4), (1,), (2,)))


def _rows(x: ir.Value) -> ir.Value:
    """Images, or a weight, with their channels last: a view where they lie so."""
    return _B.permute(x, CHANNELS_LAST)


def _images(rows: ir.Value) -> ir.Value:
    return _B.permute(rows, FROM_CHANNELS_LAST)


def _with_zeros(x: ir.Value, sizes: list[int]) -> ir.Value:
    """x with zeros behind its elements along each dim, up to `sizes`."""
    rank = len(sizes)
    return Window(x, [0] * rank, [1] * rank, [1] * rank, 0.0, tensor(sizes, spelling_of(x))).result


def _convolution(op: ir.Operation, target: str) -> None:
    x, weight, *bias = op.operands
    *_, transposed, _, groups = convolution_arguments(op)
    found = None if transposed else _Groups.of(weight, groups)
    made = RESULT_STRIDES.find(op)
    if found is None or made is None or not is_for_tensor_cores(op, target):
        return  # without tensor cores, zeros take as long to multiply as other numbers
    if not _may_be_padded(op.results[0], made[0], target):
        return
    operands = [found.padded_images(x), found.padded_weight(weight), *map(found.padded_bias, bias)]
    part = found.results_of(rebuilt(op, operands))
    replace(op, [result := part.build()])
    split_readers(result, part)


def _gradients(op: ir.Operation, target: str) -> None:
    gradient, x, weight, _, _, _, _, transposed, _, groups, _ = gradient_arguments(op)
    found = None if transposed else _Groups.of(weight, groups)
    strides = Call.operand_strides.find(op)
    if found is None or strides is None or not _may_be_padded(x, strides[list(op.operands).index(x)], target):
        return
    padded = {gradient: found.padded_results(gradient), x: found.padded_images(x), weight: found.padded_weight(weight)}
    operands = [padded.get(value, value) for value in op.operands]
    arguments, keywords = decode_call(Call.args.of(op), [OperandRef(i) for i in range(len(operands))])
    if arguments[3] is not None:
        arguments[3] = [found.count * found.results[1]]
    wide, stands = (padded[x], padded[weight]), given_gradients(op)
    shapes = [[found.count * found.results[1]] if which == 2 else list(shape_of(wide[which])) for which in stands]
    call = Call.build(
        operands,
        [tensor(shape, spelling_of(old)) for shape, old in zip(shapes, op.results, strict=True)],
        dict(op.attributes.items()),
        args=encode_call(arguments, keywords),
        operand_strides=[channels_last(shape_of(v)) for v in operands],
        result_strides=[channels_last(shape) if len(shape) == 4 else [1] for shape in shapes],
    )
    made = dict(zip(stands, call.results, strict=True))
    cut: dict[int, ir.Value] = {}
    images = found.images_of(made[_IMAGES]) if _IMAGES in made else None
    if images is not None:
        cut[_IMAGES] = images.build()
    if _WEIGHT in made:
        cut[_WEIGHT] = found.cut_weight(made[_WEIGHT])
    if _BIAS in made:
        cut[_BIAS] = found.cut_bias(made[_BIAS])
    replace(op, [cut[which] for which in stands])
    if images is not None:
        split_readers(cut[_IMAGES], images)


def _may_be_padded(images: ir.Value, strides: Sequence[Number] | None, target: str) -> bool:
    """Whether the sizes of images are numbers and cuDNN gets them in channels_last; the interpreter stands for a GPU
    where it does."""
    if not all(isinstance(n, int) and n > 0 for n in shape_of(images)):
        return False
    return target == INTERPRETER or (strides is not None and is_channels_last(shape_of(images), strides))
