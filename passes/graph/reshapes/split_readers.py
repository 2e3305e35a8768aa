"""Moves the view of a kernel's result below the pointwise ops and reductions that read it, so that they join the
kernel, or read its result where it lies.

    %1 = reshape(permute(%0)) : tensor<8x768x499xbf16>        %1 = cuesta.gelu(%0) : tensor<16x8x48x499xbf16>
    %2 = cuesta.gelu(%1)                                  →   %2 = reshape(permute(%1)) : tensor<8x768x499xbf16>

%0 : tensor<16x8x48x499xbf16>

Fusion looks through a permute, but a reshape that merges dims parts two kernels. Other operands are viewed with the
dims of the result. Where they are in memory this costs nothing.

An op that also reads a later result of a library, such as the next residual, cannot join the kernel. The op keeps its
dims, so that it joins the kernel that reads its result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.graph.reshapes.hoist_reshapes import CHEAP, POINTWISE
from cuesta.passes.infra.graph_rewrite import users
from cuesta.sizes import Number, Size

_B = GraphBuilder()

#: With reductions, the ops that cuesta computes behind a kernel, or that compute nothing.
_FOLLOWING = {*POINTWISE, *VIEWS}


@dataclass(frozen=True)
class Merged:
    """A view of `source` each of whose dims is some of the source's dims, merged; `dims` lists these, () for a size of
    1 that is none."""

    source: ir.Value
    dims: tuple[tuple[int, ...], ...]

    def build(self) -> ir.Value:
        """The view. Dims that lie side by side are merged before they are permuted, so that a copy, if one is needed,
        keeps the order of the source."""
        sizes = shape_of(self.source)
        merged = [math.prod(sizes[d] for d in dims) for dims in self.dims]
        order = self._order()
        if order is None:
            return _B.reshape(_B.permute(self.source, [d for dims in self.dims for d in dims]), merged)
        return _B.permute(_B.reshape(self.source, [merged[i] for i in order]), _inverse(order))

    def parted(self, x: ir.Value) -> ir.Value | None:
        """x, which broadcasts to the view, with dims that broadcast to the source; None where it has only a part of a
        dim."""
        sizes = shape_of(self.source)
        if shape_of(x) == ():
            return x
        own = [1] * (len(self.dims) - len(shape_of(x))) + list(shape_of(x))
        parts: list[list[Number]] = []
        for size, dims in zip(own, self.dims, strict=True):
            whole = [sizes[d] for d in dims]
            if size not in (1, math.prod(whole)):
                return None
            parts.append(whole if size == math.prod(whole) else [1] * len(whole))
        order = self._order()
        if order is None:
            turned = [d for dims in self.dims for d in dims]
            return _B.permute(_B.reshape(x, [n for part in parts for n in part]), _inverse(turned))
        return _B.reshape(_B.permute(_B.reshape(x, own), order), [n for i in order for n in parts[i]])

    def _order(self) -> list[int] | None:
        """The dims of the view in the order of the source's; None where one of them merges dims that do not lie side by
        side."""
        order = sorted(range(len(self.dims)), key=lambda i: self.dims[i])
        together = [d for i in order for d in self.dims[i]]
        return order if together == list(range(len(together))) else None

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


def _inverse(order: Sequence[int]) -> list[int]:
    return [order.index(i) for i in range(len(order))]


def split_readers(value: ir.Value, view: Merged, kernel: ir.Operation | None = None) -> None:
    """Computes pointwise readers of `value`, which is `view`, with the dims of the view's source instead, and then the
    readers of these. `kernel` computes what they start from: the view's source, unless it is given."""
    kernel = kernel or maker(view.source)
    for op in dict.fromkeys(users(value)):
        if (below := view.viewed(op)) is not None:
            split_readers(op.results[0], below, kernel)
        elif op.name in POINTWISE and shape_of(op.results[0]) == shape_of(value):
            if kernel is None or not _waits(op, kernel):
                _split(op, value, view, kernel)
        elif reduction.row_of(op) is not None:
            _reduce(op, view, kernel)


def _waits(op: ir.Operation, kernel: ir.Operation) -> bool:
    """Whether an op depends on an op behind `kernel` that is neither pointwise, a reduction nor a view."""
    left, seen = [op], set[ir.Operation]()
    while left:
        op = left.pop()
        if op in seen or op == kernel or op.block != kernel.block or op.is_before_in_block(kernel):
            continue
        seen.add(op)
        if op.operands and op.name not in _FOLLOWING and reduction.row_of(op) is None:
            return True
        left += [made for x in op.operands if (made := maker(x)) is not None]
    return False


def _split(op: ir.Operation, value: ir.Value, view: Merged, kernel: ir.Operation | None) -> None:
    with ir.InsertionPoint(op), op.location:
        repeated = _repeated(op, view, {value: view.source})
        if repeated is None:
            return
        made = Merged(repeated, view.dims)
        result = made.build()
    op.results[0].replace_all_uses_with(result)
    split_readers(result, made, kernel)


def _repeated(op: ir.Operation, view: Merged, known: dict[ir.Value, ir.Value | None]) -> ir.Value | None:
    """The result of a pointwise op of the view's shape with the dims of the view's source. Operands that cheap ops
    compute, or conversions of smaller tensors, have these dims too: a view of their results would be in memory. None
    where an operand has only a part of a dim. `known` has values that were found before."""
    (result,) = op.results
    for x in op.operands:
        if x not in known:
            made = maker(x)
            if made is not None and made.name in CHEAP and shape_of(x) == shape_of(result):
                known[x] = _repeated(made, view, known)
            elif (conversion := maker(x, Convert)) is not None:
                source = view.parted(conversion.operands[0])
                known[x] = None if source is None else _B.convert(source, spelling_of(x))
            else:
                known[x] = view.parted(x)
    operands = [y for x in op.operands if (y := known[x]) is not None]
    if len(operands) < len(op.operands):
        return None
    return repeat_op(op, operands, tensor(shape_of(view.source), spelling_of(result))).results[0]


def _reduce(op: ir.Operation, view: Merged, kernel: ir.Operation | None) -> None:
    """Reduces the view's source instead of the view."""
    row = reduction.row_of(op)
    assert row is not None
    reduced, keepdim = Reduced.dims.of(op), bool(Reduced.keepdim.of(op))
    dims = {d for r in reduced for d in view.dims[r]}
    kept = [d for d in range(len(shape_of(view.source))) if keepdim or d not in dims]
    with ir.InsertionPoint(op), op.location:
        total = _B.reduce(row.name, view.source, sorted(dims), keepdim)
        left = [own for r, own in enumerate(view.dims) if keepdim or r not in reduced]
        made = Merged(total, tuple(tuple(kept.index(d) for d in own) for own in left))
        result = made.build()
    op.results[0].replace_all_uses_with(result)
    split_readers(result, made, kernel)
