"""Moves the view of a kernel's result below the pointwise ops that read it, so that they join the kernel.

    %1 = reshape(permute(%0)) : tensor<8x768x499xbf16>        %1 = cuesta.gelu(%0) : tensor<16x8x48x499xbf16>
    %2 = cuesta.gelu(%1)                                  →   %2 = reshape(permute(%1)) : tensor<8x768x499xbf16>

%0 : tensor<16x8x48x499xbf16>

Fusion looks through a permute, but a reshape that merges dims parts two kernels. Other operands are viewed with the
dims of the result. Where they are in memory this costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.graph.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users
from cuesta.sizes import Number, Size

_B = GraphBuilder()


@dataclass(frozen=True)
class Merged:
    """A view of `source` each of whose dims is some of the source's dims, merged; `dims` lists these, () for a size of
    1 that is none."""

    source: ir.Value
    dims: tuple[tuple[int, ...], ...]

    def build(self) -> ir.Value:
        sizes = shape_of(self.source)
        turned = _B.permute(self.source, [d for dims in self.dims for d in dims])
        return _B.reshape(turned, [math.prod(sizes[d] for d in dims) for dims in self.dims])

    def parted(self, x: ir.Value) -> ir.Value | None:
        """x, which broadcasts to the view, with dims that broadcast to the source; None where it has only a part of a
        dim."""
        sizes = shape_of(self.source)
        own = [1] * (len(self.dims) - len(shape_of(x))) + list(shape_of(x))
        parts: list[Number] = []
        for size, dims in zip(own, self.dims, strict=True):
            whole = [sizes[d] for d in dims]
            if size not in (1, math.prod(whole)):
                return None
            parts += whole if size == math.prod(whole) else [1] * len(whole)
        order = [d for dims in self.dims for d in dims]
        return _B.permute(_B.reshape(x, parts), [order.index(d) for d in range(len(order))])

    def viewed(self, op: ir.Operation) -> Merged | None:
        """What `op` makes of this view, if it is a view that permutes or merges dims, or adds and takes away dims of
        1."""
        if Permute.matches(op):
            return Merged(self.source, tuple(self.dims[d] for d in Permute.dims.of(op)))
        if not Reshape.matches(op) or not shape_of(op.results[0]):
            return None
        old, new = shape_of(op.operands[0]), shape_of(op.results[0])
        if any(isinstance(n, Size) for n in (*old, *new)):
            return None
        left = list(zip(static_shape(op.operands[0]), self.dims, strict=True))
        merged: list[tuple[int, ...]] = []
        for size in static_shape(op.results[0]):
            count, dims = 1, tuple[int, ...]()
            while count < size:
                part, more = left.pop(0)
                count, dims = count * part, dims + more
            if count != size:
                return None
            merged.append(dims)
        ones = [d for _, dims in left for d in dims]
        return Merged(self.source, ((*ones, *merged[0]), *merged[1:]))


def split_readers(value: ir.Value, view: Merged) -> None:
    """Computes pointwise readers of `value`, which is `view`, with the dims of the view's source instead, and then the
    readers of these."""
    for op in dict.fromkeys(users(value)):
        if (below := view.viewed(op)) is not None:
            split_readers(op.results[0], below)
        elif op.name in POINTWISE and shape_of(op.results[0]) == shape_of(value):
            _split(op, value, view)


def _split(op: ir.Operation, value: ir.Value, view: Merged) -> None:
    with ir.InsertionPoint(op), op.location:
        parted = [view.source if x == value else view.parted(x) for x in op.operands]
        operands = [x for x in parted if x is not None]
        if len(operands) < len(parted):
            return
        kind = tensor(shape_of(view.source), spelling_of(op.results[0]))
        made = Merged(repeat_op(op, operands, kind).results[0], view.dims)
        result = made.build()
    op.results[0].replace_all_uses_with(result)
    split_readers(result, made)
