"""Pads channels to multiples of 8 once for all of cuDNN's convolutions that follow one another, on CUDA.

    %1 = cuesta.convolution(%x, %w, %b)         %1 = cuesta.convolution(%x, repeat(%w), repeat(%b))
    %2 = cuesta.relu(%1)                        %2 = cuesta.relu(%1)          : tensor<64x24x56x56xbf16>
      : tensor<64x18x56x56xbf16>            →   %3 = cuesta.convolution(%2, zeros(%v))
    %3 = cuesta.convolution(%2, %v)             %4 = cuesta.slice(%2)         : tensor<64x18x56x56xbf16>
    return %2, %3                               return %4, %3

cuDNN's kernels for tensor cores take multiples of 8 channels. For others it copies the images and the weight of every
call into padded memory. Here a convolution computes the channels that are missing as well, what follows carries them
along, and for them the next one's weight is 0. Weights are written in every call anyway, by the kernel that brings them
to channels_last or scales them (fold-batch-norm, which has to come first); the same kernel now pads them.

The channels that are added are copies of the last one: its weight, its bias and all numbers that an op has for it are
repeated. So no op computes anything for them that it does not for a channel of the graph, such as a division by 0 that
would give NaN, which times a weight of 0 is NaN. Where the last channel is infinite, the next convolution gives NaN in
place of an infinity.
"""

from __future__ import annotations

import math

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import Convolution
from cuesta.dialects.cuesta.indexing import Window
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of, tensor
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.choose_layouts import channels_last
from cuesta.passes.libraries.convolutions.convolution_epilogue import TARGETS
from cuesta.passes.libraries.convolutions.padded_channels import Channels, PaddedConvolution, Padding
from cuesta.sizes import Number

_B = GraphBuilder()
_MUL = pointwise.OPS["mul"]
#: Tensors of at most so many elements, such as a norm's numbers, are computed anew from padded operands. Larger ones
#: are read from memory.
_FEW = 1 << 14


@register_pass("pad-channels")
class PadChannels(Pass):
    """Pads the channels of convolutions to multiples of 8, and what lies between them."""

    def run(self, module: ir.Module) -> None:
        kind = target_of(module).kind
        if kind not in TARGETS:
            return
        with module.context:
            for function in functions(module):
                padding = Padding.of(function, kind)
                if padding.convolutions:
                    _Padder(padding).run([op.operation for op in function.regions[0].blocks[0].operations])
        erase_dead(module)


class _Padder:
    """Rewrites a function in program order. Each value that is padded is replaced by a slice of its padded form."""

    def __init__(self, padding: Padding) -> None:
        self._padding = padding
        self._convolutions = {c.op.results[0]: c for c in padding.convolutions}
        #: a value and its channels → its padded form
        self._made: dict[tuple[ir.Value, Channels], ir.Value] = {}

    def run(self, ops: list[ir.Operation]) -> None:
        for op in ops:
            with ir.InsertionPoint(op), op.location:
                if len(op.results) == 1 and (chosen := self._convolutions.get(op.results[0])) is not None:
                    self._convolution(chosen)
                elif (operands := self._padding.carried(op)) is not None:
                    channels = self._padding.padded[op.results[0]]
                    self._put(op, channels, self._repeated(op, operands, channels))

    def _put(self, op: ir.Operation, channels: Channels, whole: ir.Value) -> None:
        (result,) = op.results
        part = _B.slice(whole, channels.dim, 0, shape_of(result)[channels.dim])
        self._made[part, channels] = whole
        replace(op, [part])

    def _convolution(self, chosen: PaddedConvolution) -> None:
        op = chosen.op
        x, weight, *bias = op.operands
        (result,) = op.results
        x = self._padded(x, Channels.of_images(x)) if chosen.images else x
        weight = self._weight(weight, chosen)
        if chosen.result:
            bias = [self._padded(b, Channels(0, chosen.added[0])) for b in bias]
        made = rebuilt(op, [x, weight, *bias])
        if chosen.result:
            self._put(op, Channels.of_images(result), made)
        else:
            replace(op, [made])

    def _padded(self, x: ir.Value, channels: Channels) -> ir.Value:
        """x with its channels padded: as it was made, computed anew, or read from memory."""
        known = self._made.get((x, channels))
        if known is None:
            op = maker(x)
            operands = channels.within(op) if op is not None and all(map(_is_few, (x, *op.operands))) else None
            if op is not None and operands is not None:
                known = self._repeated(op, operands, channels)
            else:
                known = _read(x, {channels.dim: channels.added}, repeated=[channels.dim])
            self._made[x, channels] = known
        return known

    def _repeated(self, op: ir.Operation, operands: list[Channels | None], channels: Channels) -> ir.Value:
        """The result of an op from padded operands."""
        padded = [x if own is None else self._padded(x, own) for x, own in zip(op.operands, operands, strict=True)]
        kind = _widened(op.results[0], {channels.dim: channels.added})
        return repeat_op(op, padded, kind).results[0]

    def _weight(self, weight: ir.Value, chosen: PaddedConvolution) -> ir.Value:
        """A weight whose last channel of the result is repeated, with 0 for the channels added to the images. The
        conversions and the scale of each channel that fold-batch-norm has left are computed on the padded weight."""
        op = maker(weight)
        if op is not None and Convert.matches(op):
            return _B.convert(self._weight(op.operands[0], chosen), spelling_of(weight))
        if op is not None and _MUL.matches(op):
            whole, scale = op.operands
            if shape_of(whole) == shape_of(weight) and shape_of(scale) == (shape_of(weight)[0], 1, 1, 1):
                if chosen.result:
                    scale = self._padded(scale, Channels(0, chosen.added[0]))
                return _B.pointwise("mul", self._weight(whole, chosen), scale)
        return _padded_weight(weight, chosen)


def _is_few(x: ir.Value) -> bool:
    return math.prod(shape_of(x)) <= _FEW


def _padded_weight(weight: ir.Value, chosen: PaddedConvolution) -> ir.Value:
    added = {d: n for d, n in enumerate(chosen.added) if n}
    return _read(weight, added, repeated=[0] if chosen.result else [])


def _read(x: ir.Value, added: dict[int, int], repeated: list[int]) -> ir.Value:
    """x with `added[d]` more elements along each dim d that is named: 0, or along the dims `repeated` its last ones."""
    rank = len(shape_of(x))
    window = Window(x, [0] * rank, [1] * rank, [1] * rank, 0.0, _widened(x, added))
    if repeated:
        Window.repeated.put(window, repeated)
    return window.result


def _widened(x: ir.Value, added: dict[int, int]) -> ir.Type:
    return tensor([n + added.get(d, 0) for d, n in enumerate(shape_of(x))], spelling_of(x))


def rebuilt(op: ir.Operation, operands: list[ir.Value]) -> ir.Value:
    """The convolution of padded operands, in channels_last."""
    x, weight, *bias = operands
    c, a = Convolution, op.attributes
    parameters = (c.stride, c.padding, c.dilation, c.transposed, c.output_padding, c.groups)
    n, _, *places = shape_of(op.results[0])
    kind = tensor([n, shape_of(weight)[0], *places], spelling_of(x))
    made = Convolution(x, weight, bias[0] if bias else None, *[a[p.name] for p in parameters], kind)
    if (by := Convolution.cudnn.find(op)) is not None:
        Convolution.cudnn.put(made, by)
    strides: list[list[Number]] = [channels_last(shape_of(v)) for v in (x, weight)]
    OPERAND_STRIDES.put(made, strides + [[1] for _ in bias])
    RESULT_STRIDES.put(made, [channels_last(shape_of(made.results[0]))])
    value: ir.Value = made.results[0]
    return value
