"""Reads the parts of one tensor in another order, where a concatenation would write them side by side.

    %1 = cuesta.slice(%x) {starts = [0, 32]}           %p = 32 33 … 63 0 1 … 31
    %2 = cuesta.neg(%1)                                %1 = cuesta.index(%x, %p) {dims = [1]}
    %3 = cuesta.slice(%x) {starts = [0, 0]}       →    %2 = cuesta.where(0 1 … 63 < 32, -%1, %1)
    %4 = cuesta.cat(%2, %3) {dim = 1}

A rotary embedding swaps the halves of each head's row, and negates one. A concatenation is in memory, so that its
reader would wait for a kernel of its own; what is read at computed positions joins the reader's kernel.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.indexing import Index
from cuesta.dialects.cuesta.shape import Cat, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape
from cuesta.passes.form_kernels.placement.concatenation import is_inner, operands_of
from cuesta.passes.graph.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()

#: The most parts: every element of the result compares its place with the start of each.
_MOST = 4


@register_pass("swapped-parts")
class SwappedParts(Pass):
    """Rewrites concatenations of parts of one tensor as reads at computed positions."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Cat.OPERATION_NAME: _rewrite})
        erase_dead(module)


@dataclass(frozen=True)
class _Part:
    """A part of a concatenation: pointwise ops of one operand, the last one first, on elements of `x` from `start`."""

    ops: Sequence[ir.Operation]
    x: ir.Value
    start: int

    @staticmethod
    def of(value: ir.Value, dim: int) -> _Part | None:
        """What a part is made of; None if it is no run of elements along `dim` of another tensor."""
        ops = []
        while (op := maker(value)) is not None and op.name in POINTWISE and len(op.operands) == 1:
            if len(users(value)) > 1:
                return None
            ops.append(op)
            (value,) = op.operands
        if op is None or not Slice.matches(op):
            return None
        (x,) = op.operands
        whole, own, start = shape_of(x), shape_of(value), Slice.starts.of(op)[dim]
        is_run = (whole[:dim], whole[dim + 1 :]) == (own[:dim], own[dim + 1 :])
        if not is_run or Slice.steps.of(op)[dim] != 1 or not isinstance(start, int):
            return None
        return _Part(ops, x, start)

    def computed(self, read: ir.Value) -> ir.Value:
        """The part's ops on what was read."""
        for op in reversed(self.ops):
            kind = types.tensor(shape_of(read), spelling_of(op.results[0]))
            (read,) = repeat_op(op, [read], kind).results
        return read


def _rewrite(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,), dim = op.results, Cat.dim.of(op)
    values, sizes = operands_of(op), shape_of(result)
    if is_inner(op) or len(values) > _MOST or not all(isinstance(n, int) for n in sizes):
        return None
    parts = [part for value in values if (part := _Part.of(value, dim)) is not None]
    if len(parts) < len(values) or len({part.x for part in parts}) > 1:
        return None
    starts = list(itertools.accumulate((static_shape(value)[dim] for value in values[:-1]), initial=0))
    place = _B.along([sizes[dim]], 0)
    moved = [_B.with_number("add", place, part.start - start) for part, start in zip(parts, starts, strict=True)]
    x = parts[0].x
    read = Index(x, [_chosen(place, starts, moved)], [dim], result=types.tensor(sizes, spelling_of(x))).result
    Index.in_range.mark(read.owner)
    return [_chosen(_B.along(sizes, dim), starts, [part.computed(read) for part in parts])]


def _chosen(place: ir.Value, starts: Sequence[int], values: Sequence[ir.Value]) -> ir.Value:
    """At each place the value of the part that it belongs to."""
    chosen = values[-1]
    for start, value in reversed(list(zip(starts[1:], values[:-1], strict=True))):
        if value != chosen:
            chosen = _B.where(_B.with_number("lt", place, start), value, chosen)
    return chosen
