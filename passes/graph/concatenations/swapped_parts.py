"""Reads the parts of tensors in another order, where a concatenation would write what is made of them side by side.

    %1 = cuesta.slice(%x) {starts = [0, 32]}           %p = 32 33 … 63 0 1 … 31
    %2 = cuesta.neg(%1)                                %1 = cuesta.index(%x, %p) {dims = [1]}
    %3 = cuesta.slice(%x) {starts = [0, 0]}       →    %2 = cuesta.where(0 1 … 63 < 32, -%1, %1)
    %4 = cuesta.cat(%2, %3) {dim = 1}

    %4 = cuesta.cat(%a * %cos - %b * %sin,        →    %u = %x * %cos[0 … 31 0 … 31]
                    %b * %cos + %a * %sin)             %v = %x[32 … 63 0 … 31] * %sin[0 … 31 0 … 31]
      of %a, %b = the halves of %x                     %4 = cuesta.where(0 1 … 63 < 32, %u - %v, %u + %v)

A rotary embedding swaps the halves of each head's row, and negates one. A concatenation is in memory, so that its
reader would wait for kernels of its own; what is read at computed positions joins the reader's kernel.

Parts are taken apart from their ends: where all are made by one op, that op is made once, of its operands' parts. Where
their ops differ, each is made for all elements, and an element takes the one that it needs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.indexing import Index
from cuesta.dialects.cuesta.shape import Cat, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_count, shape_of, spelling_of, static_shape
from cuesta.passes.form_kernels.placement.concatenation import is_inner, operands_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()
#: Makes a value that has all parts.
Recipe: TypeAlias = "Callable[[], ir.Value]"

#: The most parts: every element of the result compares its place with the start of each.
_MOST = 4
#: The most bytes of a result whose parts are more than one operand each, as where one token is made: there a launch
#: takes longer than what it does. With more, reads at computed positions, element by element, were not measured.
_FEW_BYTES = 1 << 20


@register_pass("swapped-parts")
class SwappedParts(Pass):
    """Rewrites concatenations of what is made of parts of tensors as reads at computed positions."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Cat.OPERATION_NAME: _rewrite})
        erase_dead(module)


def _rewrite(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,), dim = op.results, Cat.dim.of(op)
    values, sizes = operands_of(op), shape_of(result)
    if is_inner(op) or len(values) > _MOST or not all(isinstance(n, int) for n in sizes):
        return None
    lengths = [static_shape(value)[dim] for value in values]
    parts = _Parts(dim, static_shape(result), list(itertools.accumulate(lengths[:-1], initial=0)))
    recipe = parts.joined(values)
    if recipe is None or (parts.several and byte_count(result) > _FEW_BYTES):
        return None
    made = recipe()
    # Parts of one element each that are the same broadcast.
    return [made if shape_of(made) == sizes else _B.expand(made, sizes)]


@dataclass
class _Parts:
    """What becomes one value: the parts of a concatenation of these sizes, and where along `dim` each starts."""

    dim: int
    sizes: Sequence[int]
    starts: Sequence[int]
    #: Whether parts are more than runs of one tensor, each perhaps with ops of one operand.
    several: bool = field(default=False)

    def joined(self, values: Sequence[ir.Value]) -> Recipe | None:
        """How to make a value with all parts; None if they are not parts of the same tensors. Nothing is built yet."""
        first = values[0]
        if all(value == first for value in values):
            return self._repeated(first)
        runs = [run for value in values if (run := _Run.of(value, self.dim, len(self.sizes))) is not None]
        if len(runs) == len(values) and len({(run.x, run.shape) for run in runs}) == 1:
            return lambda: self._read(runs[0].whole(), [run.start for run in runs])
        ops = [op for value in values if (op := self._own(value)) is not None]
        are_made = len(ops) == len(values) and len({len(op.operands) for op in ops}) == 1
        if are_made and _alike(ops):
            return self._made(ops, ops[:1])
        chains = [self._chain(value) for value in values]
        if any(chains):  # ops of one operand, of which a part may have none
            bases = [chain[-1].operands[0] if chain else value for value, chain in zip(values, chains, strict=True)]
            return self._ended(bases, chains)
        return self._made(ops, ops) if are_made else None

    def _own(self, value: ir.Value) -> ir.Operation | None:
        """The pointwise op that makes a value which nothing else reads."""
        op = maker(value)
        return op if op is not None and op.name in POINTWISE and len(users(value)) == 1 else None

    def _chain(self, value: ir.Value) -> list[ir.Operation]:
        """The ops of one operand that end in a value, the last one first."""
        found = []
        while (op := self._own(value)) is not None and len(op.operands) == 1:
            found.append(op)
            (value,) = op.operands
        return found

    def _made(self, ops: Sequence[ir.Operation], different: Sequence[ir.Operation]) -> Recipe | None:
        """How to make the ops' operands with all parts, and of them what the `different` ones of the ops make."""
        operands = [self.joined(column) for column in zip(*(op.operands for op in ops), strict=True)]
        if None in operands:
            return None
        self.several |= len(operands) > 1

        def make() -> ir.Value:
            made = [recipe() for recipe in operands if recipe is not None]
            return self._chosen(self._along(), [self._repeat(op, made) for op in different])

        return make

    def _ended(self, bases: Sequence[ir.Value], chains: Sequence[Sequence[ir.Operation]]) -> Recipe | None:
        """How to make one value of the bases, and of it what each chain of ops makes."""
        base = self.joined(bases)
        if base is None:
            return None

        def make() -> ir.Value:
            read = base()
            ends = []
            for chain in chains:
                value = read
                for op in reversed(chain):
                    value = self._repeat(op, [value])
                ends.append(value)
            return self._chosen(self._along(), ends)

        return make

    def _repeated(self, value: ir.Value) -> Recipe:
        """How to make a value that each part has as it is: again for each, if it has parts at all."""
        shape = shape_of(value)
        axis = self.dim - (len(self.sizes) - len(shape))
        if axis < 0 or shape[axis] == 1:
            return lambda: value
        self.several = True
        return lambda: self._read(value, [0] * len(self.starts), axis)

    def _read(self, x: ir.Value, begins: Sequence[int], axis: int | None = None) -> ir.Value:
        """A tensor whose parts begin in `x` at these places."""
        axis = self.dim if axis is None else axis
        whole = shape_of(x)
        if list(begins) == self.starts and whole[axis] == self.sizes[self.dim]:
            return x
        place = _B.along([self.sizes[self.dim]], 0)
        moved = [_B.with_number("add", place, begin - start) for begin, start in zip(begins, self.starts, strict=True)]
        kind = types.tensor([*whole[:axis], self.sizes[self.dim], *whole[axis + 1 :]], spelling_of(x))
        read = Index(x, [self._chosen(place, moved)], [axis], result=kind).result
        Index.in_range.mark(read.owner)
        return read

    def _along(self) -> ir.Value:
        """The place of each element along the concatenation's dim."""
        return _B.along(self.sizes, self.dim)

    def _chosen(self, place: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
        """At each place the value of the part that it belongs to; the only value, if there is one."""
        chosen = values[-1]
        for start, value in reversed(list(zip(self.starts[1:], values[:-1], strict=len(values) > 1))):
            if value != chosen:
                chosen = _B.where(_B.with_number("lt", place, start), value, chosen)
        return chosen

    def _repeat(self, op: ir.Operation, operands: Sequence[ir.Value]) -> ir.Value:
        """What an op does, on operands with all parts."""
        (result,) = op.results
        sizes, axis = list(shape_of(result)), self.dim - len(self.sizes)
        if any(len(shape) >= -axis and shape[axis] != 1 for shape in map(shape_of, operands)):
            sizes[axis] = self.sizes[self.dim]
        (made,) = repeat_op(op, operands, types.tensor(sizes, spelling_of(result))).results
        return made


@dataclass(frozen=True)
class _Run:
    """A run of elements along a dim of a tensor, seen with other dims in front."""

    x: ir.Value
    #: The sizes of all of x as it is seen.
    shape: tuple[Number, ...]
    start: int

    @staticmethod
    def of(value: ir.Value, dim: int, rank: int) -> _Run | None:
        """None for what is no such run."""
        seen, op = shape_of(value), maker(value)
        if op is not None and Reshape.matches(op):
            op = maker(op.operands[0])
        if op is None or not Slice.matches(op) or len(seen) != rank:
            return None
        (x,), own = op.operands, shape_of(op.results[0])
        whole, axis = shape_of(x), dim - rank + len(own)
        start = Slice.starts.of(op)[axis] if axis >= 0 else None
        if not isinstance(start, int) or Slice.steps.of(op)[axis] != 1 or own[axis:] != seen[dim:]:
            return None
        if (whole[:axis], whole[axis + 1 :]) != (own[:axis], own[axis + 1 :]):
            return None
        shape = (*seen[:dim], whole[axis], *seen[dim + 1 :])
        return _Run(x, shape, start) if all(isinstance(n, int) for n in shape) else None

    def whole(self) -> ir.Value:
        """All of x."""
        return self.x if shape_of(self.x) == self.shape else _B.reshape(self.x, self.shape)


def _alike(ops: Sequence[ir.Operation]) -> bool:
    """Whether ops do the same to their operands."""
    first = ops[0]
    return all(op.name == first.name and dict(op.attributes.items()) == dict(first.attributes.items()) for op in ops)
