"""Writes kernels of a maximum and of the powers of what lies below it, as one loop where there would be two.

    for four blocks of a row at a time:                     each place of the block has a maximum and a sum of its own
        new = max(high, x0, x1, x2, x3)
        total = total exp(high - new) + exp(x0 - new) + exp(x1 - new) + exp(x2 - new) + exp(x3 - new)
        high = new
    highest = max(high)                                     then the maximum of all is known
    store(highest), store(sum(total exp(high - highest)))

    for each block of a row: store(what is computed of x and both)            in a softmax

Milakov and Gimelshein, Online normalizer calculation for softmax, 2018. So rows that no block holds, as of a loss over
a large vocabulary, are read once, and those of a softmax twice. The blocks of a turn are loaded before anything is
computed, and share what it costs that the maximum has changed.

A maximum starts from the lowest finite number, so that no difference is one of two infinities where the exact sum is
finite. Where all numbers are -inf no power is added, and the results are eager's: -inf, and a sum that is NaN.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuesta._mlir import arith, ir, scf
from cuesta._mlir import math as functions
from cuesta.dialects import tt
from cuesta.dialects.tt.types import shape_of
from cuesta.lowering.linalg_to_tt import reduction
from cuesta.lowering.linalg_to_tt.frame import Value, stretched
from cuesta.lowering.linalg_to_tt.kernel import KernelWriter, Node
from cuesta.lowering.linalg_to_tt.one_loop.makers import are_same, is_op, made, maker
from cuesta.lowering.linalg_to_tt.reduction import Reduction

#: Type → its lowest finite number.
_LOWEST = {"f32": -(2.0 - 2.0**-23) * 2.0**127, "f64": -sys.float_info.max}
#: Most blocks of a turn, and elements that a thread loads in it.
_BLOCKS, _LOADED = 4, 32


@dataclass(frozen=True)
class Powers:
    """The nodes of a kernel that has no others in its loop but what makes the numbers themselves."""

    highest: Node
    total: Node


def find_powers(writer: KernelWriter, loops: Sequence[int]) -> Powers | None:
    """The maximum and the sum of a kernel that walks the classes of `loops`; None for another kernel."""
    found = [node for node in writer.nodes if node.reduced]
    if len(loops) != 1 or len(found) != 2 or any(node.reduced != [*loops] or node.runs for node in found):
        return None
    highest, total = found
    power = maker(writer, total, arith.AddFOp, (1, 0))
    below = power and maker(writer, power, functions.ExpOp, (0,))
    if below is None or not is_op(below, arith.SubFOp, (0, 1)) or not is_op(highest, arith.MaximumFOp, (1, 0)):
        return None
    (x, _), (y, _) = below.inputs
    known = str(highest.op.results[0].type.element_type) in _LOWEST and {*highest.classes} == {*total.classes}
    is_below = made(writer, y) is highest and are_same(writer, x, highest.inputs[0][0])
    return Powers(highest, total) if known and is_below else None


def write_powers(writer: KernelWriter, found: Powers, warps: int) -> None:
    """Writes the kernel, whose programs have so many warps."""
    (c,) = found.highest.reduced
    for node in writer.nodes:  # what needs neither is loaded first
        if not {found.highest.op, found.total.op} & writer.needed([node]) and c not in node.classes:
            writer.emit(node)
    _finish(writer, found, *_Loop.of(writer, found, warps).write())
    writer.write_rest(c)


@dataclass(frozen=True)
class _Loop:
    """The loop over the blocks of a row."""

    writer: KernelWriter
    highest: Node
    #: How the maximum is reduced.
    taken: Reduction
    shape: list[int]
    #: The blocks of a turn.
    blocks: int

    @staticmethod
    def of(writer: KernelWriter, found: Powers, warps: int) -> _Loop:
        shape = writer.frame.shape(found.highest.classes)
        blocks = max(min(_BLOCKS, _LOADED * 32 * warps // math.prod(shape)), 1)
        return _Loop(writer, found.highest, reduction.analyse(found.highest.op), shape, blocks)

    def write(self) -> list[Value]:
        """Writes the loop, and the blocks that are left behind its last turn, of which one at most is beyond the end.
        Returns the maximum and the sum of each place."""
        (c,), frame = self.highest.reduced, self.writer.frame
        size, block, kind = frame.sizes[c], frame.blocks[c], self.taken.identities[0].type
        turn = self.blocks * block
        begin = 0 if frame.lead is None else block
        end = begin + (size - begin) // turn * turn if isinstance(size, int) else size
        carried = [tt.full(self.shape, kind, _LOWEST[str(kind)]), tt.full(self.shape, kind, 0)]
        loop = scf.ForOp(frame.scalar(begin), frame.scalar(end), frame.scalar(turn), carried)
        with ir.InsertionPoint(loop.body), self.highest.op.location:
            start = loop.induction_variable
            starts = [arith.addi(start, frame.scalar(n * block)) if n else start for n in range(self.blocks)]
            places = [(place, isinstance(size, int)) for place in starts]
            scf.YieldOp(self._turn(places, *loop.inner_iter_args))
        carried = [*loop.results]
        if isinstance(size, int) and isinstance(end, int):
            # A first block that begins below its row has a mask, as the last has.
            left = [*range(0, begin, block), *range(end, size + (1 if begin else 0), block)]
            if left:
                places = [(frame.scalar(n), begin <= n <= size - block) for n in left]
                carried = self._turn(places, *carried)
        return carried

    def _turn(self, places: Sequence[tuple[Value, bool]], high: Value, total: Value) -> list[Value]:
        """The maxima and the sums with blocks that begin at some places, and may be known to be inside of bounds."""
        numbers = [*self._numbers(places)]
        new = high
        for x in numbers:
            new = arith.maximumf(new, x)
        total = arith.mulf(total, functions.exp(arith.subf(high, new)))
        for x in numbers:
            total = arith.addf(total, functions.exp(arith.subf(x, new)))
        return [new, total]

    def _numbers(self, places: Sequence[tuple[Value, bool]]) -> Iterator[Value]:
        """The numbers of blocks, -inf beyond the end. All are loaded before anything is computed."""
        writers = []
        needed = self.writer.needed([self.highest]) - {self.highest.op}
        nodes = [node for node in self.writer.nodes if node.op in needed]
        for start, inside in places:
            own = self.writer.copy()
            own.frame.place_in_loop(self.highest.reduced, start, inside=inside)
            for node in [*nodes, self.highest]:
                for value, classes in node.inputs:
                    if isinstance(value.owner, ir.Block) and own.frame.has(classes):
                        own.load(value, classes)
            writers.append(own)
        for own in writers:
            for node in nodes:
                own.emit(node)
            (numbers,) = own.contributions(self.highest, self.taken)
            yield stretched(numbers, self.shape)


def _finish(writer: KernelWriter, found: Powers, high: Value, total: Value) -> None:
    """Joins the maxima and the sums of all places."""
    (peak,), (sum_,) = found.highest.op.results, found.total.op.results
    writer.finish([(found.highest, reduction.analyse(found.highest.op), [high])])
    share = functions.exp(arith.subf(high, stretched(writer.value(peak), shape_of(high))))
    writer.finish([(found.total, reduction.analyse(found.total.op), [arith.mulf(total, share)])])
    kind, shape = sum_.type.element_type, shape_of(writer.value(sum_))
    is_hidden = arith.cmpf(arith.CmpFPredicate.OEQ, writer.value(sum_), tt.full(shape, kind, 0))
    for value, number in ((peak, -math.inf), (sum_, math.nan)):
        writer.blocks[value] = arith.select(is_hidden, tt.full(shape, kind, number), writer.value(value))
