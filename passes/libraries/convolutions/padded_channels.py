"""Decides which convolutions get channels in multiples of 8, and which tensors between them are padded.

A convolution asks for padded images, and a convolution makes them. What lies between is padded if ops compute every
channel for itself on the way from one to the other. Whatever else reads a padded tensor reads a slice of it.

The rule counts bytes, for all convolutions at once that hand padded tensors to one another. A convolution that cuDNN
pads itself reads and writes its images once more, and its result too. Against that stand, each read and written once,
the images that no convolution made, the slices that have to lie densely (those that are returned, or that a call
reads), and what is added to the tensors that kernels of ours write.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from cuesta._mlir import func, ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.contraction import Convolution, convolution_arguments
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.indexing import Index, Window
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.types import byte_count, shape_of, spelling_of, static_shape
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users
from cuesta.passes.libraries.choose_layouts import is_channels_last
from cuesta.passes.libraries.convolutions.channels import operand_channels
from cuesta.passes.libraries.convolutions.convolution_epilogue import (
    epilogue_of,
    is_for_tensor_cores,
    refusal,
)
from cuesta.passes.libraries.products.routes import NARROW_FLOATS

#: cuDNN's kernels for tensor cores take multiples of so many channels.
_MULTIPLE = 8
#: At most one channel is added for so many: 18 become 24, but 3 or 12 + 1 stay.
_FOR_EACH = 3
#: Ops whose kernels read a slice where it lies, besides pointwise ops and reductions.
_READS_SLICES = names_of(Index, Window)


def padded_count(channels: int) -> int:
    """The number of channels that so many are padded to; `channels` itself if they are left as they are."""
    padded = -(-channels // _MULTIPLE) * _MULTIPLE
    return padded if (padded - channels) * _FOR_EACH <= channels else channels


@dataclass(frozen=True)
class Channels:
    """The dim of a value's channels, and how many are added to them."""

    dim: int
    added: int

    @classmethod
    def of_images(cls, x: ir.Value) -> Channels:
        """Those of the images, or of the result, of a convolution."""
        count = static_shape(x)[1]
        return cls(1, padded_count(count) - count)

    def within(self, op: ir.Operation) -> list[Channels | None] | None:
        """Those of each operand of an op whose result has these; None if its operands cannot tell what they are."""
        dims = operand_channels(op, self.dim) if len(op.results) == 1 else None
        return None if dims is None else [None if d is None else Channels(d, self.added) for d in dims]


@dataclass(frozen=True)
class PaddedConvolution:
    """A convolution, and whether its images and its result are padded."""

    op: ir.Operation
    images: bool
    result: bool

    @property
    def added(self) -> tuple[int, int]:
        """The channels that are added to the result and to the images."""
        (result,), (x, *_) = self.op.results, self.op.operands
        return (
            Channels.of_images(result).added if self.result else 0,
            Channels.of_images(x).added if self.images else 0,
        )


@dataclass
class Padding:
    """What is padded in a function: `convolutions` in program order, and the channels of each value that there is in
    padded form."""

    convolutions: list[PaddedConvolution]
    padded: dict[ir.Value, Channels] = field(default_factory=dict)

    @classmethod
    def of(cls, function: func.FuncOp, target: str) -> Padding:
        """The padding that pays."""
        ops = [op.operation for op in function.regions[0].blocks[0].operations]
        found = [c for op in ops if Convolution.matches(op) and (c := _convolution(op, target)) is not None]
        if not found:
            return cls([])
        whole = cls(found)
        whole._follow(ops)
        groups = _Groups(whole)
        paying = cls([c for c in found if groups.gain(c) > 0])
        paying._follow(ops)
        return paying

    def copied(self) -> list[ir.Value]:
        """The images that convolutions want padded, but that nothing makes so."""
        images = (c.op.operands[0] for c in self.convolutions if c.images)
        return list(dict.fromkeys(x for x in images if x not in self.padded))

    def carried(self, op: ir.Operation) -> list[Channels | None] | None:
        """The channels of each operand, if the op is to be computed in padded form."""
        if len(op.results) != 1 or Convolution.matches(op) or op.results[0] not in self.padded:
            return None
        return self.padded[op.results[0]].within(op)

    def _follow(self, ops: list[ir.Operation]) -> None:
        """Fills `padded`: what a padded convolution makes, and what is computed from this and wanted padded."""
        wanted, made = self._wanted(ops), {c.op.results[0] for c in self.convolutions if c.result}
        for op in ops:
            if len(op.results) != 1:
                continue
            (result,) = op.results
            if result in made:
                self.padded[result] = Channels.of_images(result)
            elif (channels := wanted.get(result)) is not None:
                pairs = zip(op.operands, channels.within(op) or (), strict=False)
                if any(own is not None and self.padded.get(x) == own for x, own in pairs):
                    self.padded[result] = channels

    def _wanted(self, ops: list[ir.Operation]) -> dict[ir.Value, Channels]:
        """The values that a padded convolution reads, or that these are computed from, each with its channels."""
        wanted = {x: Channels.of_images(x) for x in (c.op.operands[0] for c in self.convolutions if c.images)}
        for c in self.convolutions:
            epilogue = epilogue_of(c.op.results[0]) if c.result and refusal(c.op) is None else None
            if epilogue is not None:  # cuDNN computes it, on what it has padded
                wanted[epilogue.relu.results[0]] = Channels.of_images(c.op.results[0])
        for op in reversed(ops):
            channels = wanted.get(op.results[0]) if len(op.results) == 1 else None
            if channels is not None:
                pairs = zip(op.operands, channels.within(op) or (), strict=False)
                wanted |= {x: own for x, own in pairs if own is not None and x not in wanted}
        return wanted


def _convolution(op: ir.Operation, target: str) -> PaddedConvolution | None:
    """Which channels of a convolution to pad, if tensor cores compute it in channels_last, and there are such."""
    x, weight, *_ = op.operands
    (result,) = op.results
    *_, transposed, _, groups = convolution_arguments(op)
    sizes = [*shape_of(x), *shape_of(weight)]
    if transposed or groups != 1 or len(shape_of(x)) != 4 or not all(isinstance(n, int) and n > 0 for n in sizes):
        return None
    if spelling_of(x) not in NARROW_FLOATS or not is_for_tensor_cores(op, target):
        return None
    traced, made = OPERAND_STRIDES.find(op), RESULT_STRIDES.find(op)
    if traced is None or made is None:
        return None
    if not is_channels_last(shape_of(x), traced[0]) or not is_channels_last(shape_of(result), made[0]):
        return None
    images, results = (padded_count(n) != n for n in (static_shape(v)[1] for v in (x, result)))
    return PaddedConvolution(op, images, results) if images or results else None


class _Groups:
    """Groups the values that convolutions hand to one another, and counts what padding a group saves, in bytes."""

    def __init__(self, padding: Padding) -> None:
        self._above: dict[ir.Value, ir.Value] = {}
        self._gains: dict[ir.Value, float] = {}
        self._join(padding)
        for value, gain in _gains(padding):
            top = self._top(value)
            self._gains[top] = self._gains.get(top, 0) + gain

    def gain(self, convolution: PaddedConvolution) -> float:
        """The bytes saved by padding a convolution and all in its group."""
        return self._gains[self._top(_sides(convolution)[0])]

    def _join(self, padding: Padding) -> None:
        for convolution in padding.convolutions:
            self._unite(_sides(convolution))
        for value in padding.padded:
            pairs = zip(value.owner.operands, padding.carried(value.owner.operation) or (), strict=False)
            self._unite([value, *(x for x, own in pairs if own is not None)])

    def _top(self, value: ir.Value) -> ir.Value:
        while value in self._above:
            value = self._above[value]
        return value

    def _unite(self, values: Collection[ir.Value]) -> None:
        first, *others = map(self._top, values)
        for other in others:
            if other != first:
                self._above[other] = first


def _sides(convolution: PaddedConvolution) -> list[ir.Value]:
    """The images and the result of a convolution, as far as they are padded."""
    op = convolution.op
    return [*op.operands[:1]] * convolution.images + [*op.results] * convolution.result


def _gains(padding: Padding) -> Iterable[tuple[ir.Value, float]]:
    """Bytes that are saved, and, below 0, bytes that padding costs, each with a value that is read or written."""
    for convolution in padding.convolutions:
        yield from ((value, 2 * byte_count(value)) for value in _sides(convolution))
    yield from ((value, -2 * byte_count(value)) for value in padding.copied())
    convolved = {c.op.results[0] for c in padding.convolutions if c.images}
    for value, channels in padding.padded.items():
        readers = users(value)
        if not all(
            _reads_slice(user) or padding.carried(user) or convolved.intersection(user.results) for user in readers
        ):
            yield value, -2 * byte_count(value)
        operands = padding.carried(value.owner.operation)
        if operands is None:
            continue
        if any(user.name not in POINTWISE for user in readers):  # it is stored
            yield value, -2 * byte_count(value) * channels.added / static_shape(value)[channels.dim]
        for x, own in zip(value.owner.operands, operands, strict=True):
            if own is not None and x not in padding.padded:
                yield x, -2 * byte_count(x)


def _reads_slice(user: ir.Operation) -> bool:
    return user.name in POINTWISE or user.name in _READS_SLICES or reduction.row_of(user) is not None
