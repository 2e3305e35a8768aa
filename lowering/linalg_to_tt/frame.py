"""Tracks the block of a program: its positions along each class, and a mask of those within bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import arith, ir, scf
from cuesta.dialects import maker, tt
from cuesta.dialects.tt.fields import LOOP_STAGES
from cuesta.dialects.tt.types import element_of, shape_of
from cuesta.lowering.linalg_to_tt.scalars import Scalars
from cuesta.sizes import Number

Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Lead:
    """How far below its row the first block along a class begins, because not all rows begin at multiples of 16 bytes
    (`memory/row_starts.py`)."""

    along: int
    #: The number of elements that divides where blocks begin, in memory.
    unit: int
    #: Where in memory the first block begins, and how many elements of it lie before the row.
    first: Value
    before: Value
    #: The accesses that begin there: where their argument begins, and the classes of its dims.
    accesses: frozenset[tuple[Value, tuple[int, ...]]]


@dataclass(frozen=True)
class Turns:
    """The turns of a loop over blocks: `begin`, `begin` + `step`, … below `end`."""

    begin: Number
    end: Number
    step: Number
    #: Whether all of their blocks are known to be within bounds.
    inside: bool = False

    @property
    def is_last(self) -> bool:
        """Whether there is one turn, behind those of another loop."""
        known = isinstance(self.begin, int) and isinstance(self.end, int) and isinstance(self.step, int)
        return known and self.begin > 0 and self.end <= self.begin + self.step


@dataclass
class Frame:
    """The block of one program.

    Every block value has a dim for each of `axes`, the classes whose block is larger than 1, and at least one dim, so
    that no value has rank 0. A dim has size 1 if the value lacks the class.
    """

    sizes: Sequence[Number]
    blocks: Sequence[int]
    scalars: Scalars
    axes: list[int] = field(default_factory=list)
    positions: dict[int, Value] = field(default_factory=dict)
    masks: dict[int, Value] = field(default_factory=dict)
    #: How many turns of a loop have their loads in flight at once.
    stages: int = 1
    #: Where rows of the block share computed positions: class → its first row. A thread then has two elements side by
    #: side of several rows, not as many as it could load at once; `lookups` says why.
    rows: Mapping[int, Value] | None = None
    #: Set where blocks begin below their row, and then how far each place of the block is from where these begin.
    lead: Lead | None = None
    from_first: Value | None = None
    #: Where `place` has placed each class.
    placed: dict[int, tuple[Value | None, int, bool, int]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.axes = [c for c, b in enumerate(self.blocks) if b > 1]

    @property
    def index_type(self) -> ir.Type:
        """Type of positions and offsets."""
        return self.scalars.kind

    @property
    def rank(self) -> int:
        return max(len(self.axes), 1)

    @property
    def unit(self) -> list[int]:
        """The shape of a value that is the same at all positions."""
        return [1] * self.rank

    def shape(self, classes: Iterable[int]) -> list[int]:
        """The shape of a value that has `classes`."""
        held = set(classes)
        return [self.blocks[c] if c in held else 1 for c in self.axes] or [1]

    def scalar(self, number: Number) -> Value:
        return self.scalars.of(number)

    def place(self, c: int, start: Value | None, covered: int = 1, *, inside: bool = False, apart: int = 1) -> None:
        """Places the block at `start` along class c (None: at 0), its elements `apart`. The blocks of all starts
        together cover a multiple of the block and of `covered` elements; a size that is such a multiple needs no mask,
        nor does a block that is known to be `inside` of bounds."""
        self.placed[c] = (start, covered, inside, apart)
        if c not in self.axes:
            self.positions[c] = tt.splat(start if start is not None else self.scalar(0), self.unit)
            return
        block = self.positions[c] = self.counted(c, start, apart)
        self.masks.pop(c, None)
        if self.lead is not None and self.lead.along == c:
            self.from_first = block
            block = self.positions[c] = arith.subi(*common_shape([block, self.lead.before]))
            if not inside:  # as unsigned numbers, positions before the row are large
                bound = self.scalars.block(self.sizes[c], list(shape_of(block)))
                self.masks[c] = arith.cmpi(arith.CmpIPredicate.ult, block, bound)
        elif not inside and not self.scalars.divides(math.lcm(self.blocks[c] * apart, covered), self.sizes[c]):
            bound = self.scalars.block(self.sizes[c], list(shape_of(block)))
            self.masks[c] = arith.cmpi(arith.CmpIPredicate.slt, block, bound)

    def counted(self, c: int, start: Value | None = None, apart: int = 1) -> Value:
        """start, start + apart, … along the axis of class c; from 0 without a start."""
        block = tt.make_range(0, self.blocks[c])
        if str(self.index_type) != "i32":
            block = arith.extsi(tt.block_type(shape_of(block), self.index_type), block)
        block = self.scaled(block, apart)
        if start is not None:
            block = arith.addi(tt.splat(start, shape_of(block)), block)
        at = self.axes.index(c)
        for axis in range(self.rank):
            if axis != at:
                block = tt.expand_dims(block, axis)
        return block

    def along(self, axes: Sequence[int]) -> Frame:
        """The same block with its axes in another order."""
        other = Frame(self.sizes, self.blocks, self.scalars)
        other.axes = [*axes]
        for c, (start, covered, inside, apart) in self.placed.items():
            other.place(c, start, covered, inside=inside, apart=apart)
        return other

    def has(self, classes: Iterable[int]) -> bool:
        """Whether the block is placed along all of these classes."""
        return set(classes) <= self.positions.keys()

    def turns(self, classes: Sequence[int]) -> Turns:
        """The turns of a loop over all blocks along `classes`, of which `place_in_loop` places each."""
        if len(classes) == 1:
            (c,) = classes
            return Turns(0, self.sizes[c], self.blocks[c])
        return Turns(0, math.prod(self._counts(classes)), 1)

    def loop(self, turns: Turns, starts: Sequence[Value]) -> scf.ForOp:
        """A loop of these turns, whose iteration arguments begin with `starts`."""
        loop = scf.ForOp(*(self.scalar(n) for n in (turns.begin, turns.end, turns.step)), starts)
        if self.stages > 1:
            LOOP_STAGES.put(loop.operation, self.stages)
        return loop

    def place_in_loop(self, classes: Sequence[int], turn: Value, *, inside: bool = False) -> None:
        """Places the block of iteration `turn` of the loop over `classes`; the last class varies fastest. A block of
        one class may be known to be `inside` of bounds."""
        if len(classes) == 1:
            self.place(classes[0], turn, inside=inside)
            return
        for c, count in reversed(list(zip(classes, self._counts(classes), strict=True))):
            number = turn
            if c != classes[0]:
                number, turn = (build(turn, self.scalar(count)) for build in (arith.remsi, arith.divsi))
            self.place(c, arith.muli(number, self.scalar(self.blocks[c])))

    def _counts(self, classes: Sequence[int]) -> list[Number]:
        return [blocks_along(self.sizes[c], self.blocks[c]) for c in classes]

    def mask(self, classes: Iterable[int]) -> Value | None:
        """The mask of the positions along `classes` that are within bounds; None if all are."""
        total = None
        for c in sorted(set(classes)):
            if c in self.masks:
                own = self.masks[c]
                total = own if total is None else arith.andi(*common_shape([total, own]))
        return total

    def offset(self, classes: Sequence[int], strides: Sequence[Number]) -> Value | None:
        """The offset, in elements, of a position of a tensor whose dims walk `classes`; None for 0."""
        total = None
        for c, stride in zip(classes, strides, strict=True):
            part = self.scaled(self.positions[c], stride)
            total = part if total is None else arith.addi(*common_shape([total, part]))
        return total

    def scaled(self, positions: Value, stride: Number) -> Value:
        """Positions along a dim as offsets, in elements."""
        if stride == 1:
            return positions
        return arith.muli(positions, self.scalars.block(stride, list(shape_of(positions))))


def blocks_along(size: Number, block: int) -> Number:
    """How many blocks it takes to cover a size."""
    return (size + block - 1) // block


def common_shape(values: Sequence[Value]) -> list[Value]:
    """The values, broadcast to one shape."""
    shape = [max(sizes) for sizes in zip(*(shape_of(v) for v in values), strict=True)]
    return [stretched(v, shape) for v in values]


def stretched(value: Value, shape: Sequence[int]) -> Value:
    """`value` with dims of size 1 broadcast to `shape`.

    A computed float of one element is first made a scalar. Else Triton would broadcast it in the layout of its source,
    before the loop that uses it, and send each block through shared memory (50 s in its compiler for a batch norm).
    Positions are not made scalars, because Triton would no longer know what they are multiples of.
    """
    number = math.prod(shape_of(value)) == 1 < math.prod(shape) and maker(value, arith.ConstantOp) is None
    if not (number and isinstance(element_of(value), ir.FloatType)):
        return tt.broadcast(value, shape)
    return tt.splat(value.owner.operands[0] if maker(value, tt.Splat) is not None else tt.unsplat(value), shape)


__all__ = ["Frame", "Value", "blocks_along", "common_shape", "element_of", "shape_of", "stretched"]
