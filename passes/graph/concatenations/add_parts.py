"""Adds concatenations part by part, where one of them has zeros.

    %2 = cuesta.cat(%0, %zeros) {dim = 0}              %a = cuesta.add(cuesta.slice(%0), cuesta.slice(%1))
    %3 = cuesta.cat(%zeros, %1) {dim = 0}        →     %4 = cuesta.cat(cuesta.slice(%0), %a, cuesta.slice(%1)) {dim = 0}
    %4 = cuesta.add(%2, %3)

The gradient of a part of a tensor is padded with zeros to the size of the tensor, and the gradients of all parts are
added up. Each would be written, zeros and all, and read again. In parts each element is written once, and what does not
overlap, such as queries, keys and values, is not added at all. The sum is cut where the fewest parts are cut in two.
Equal views of the concatenations are taken of the sum, and dims of 1 that a reshape adds are added to the parts.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.match import number, only_has_ones, only_user
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()
_ADD = pointwise.OPS["add"].OPERATION_NAME


@register_pass("add-parts")
class AddParts(Pass):
    """Rewrites sums of concatenations as concatenations of sums."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {Reshape.OPERATION_NAME: _reshape, _ADD: _add})
        erase_dead(module)


def _reshape(op: ir.Operation) -> Sequence[ir.Value] | None:
    """Reshaped parts, where a reshape only adds dims of 1 to a concatenation that is then concatenated or added."""
    reader = only_user(op.results[0])
    if reader is None or not (Cat.matches(reader) or reader.name == _ADD) or not only_has_ones(op):
        return None
    sizes = shape_of(op.results[0])
    if not _is_own(op.operands[0]) or not all(isinstance(n, int) and n > 0 for n in sizes):
        return None
    made = _with_ones(op.operands[0], static_shape(op.results[0]))
    return None if maker(made, Cat) is None else [made]


def _with_ones(value: ir.Value, sizes: tuple[int, ...]) -> ir.Value:
    """A value with these sizes, which have other dims of 1; of a concatenation each part."""
    cat, known = maker(value, Cat), number(value)
    if known is not None:
        return _B.constant(known, spelling_of(value), sizes)
    if cat is None or static_shape(value)[Cat.dim.of(cat)] == 1:
        return _B.reshape(value, sizes)
    before = sum(n != 1 for n in static_shape(value)[: Cat.dim.of(cat)])
    dim = [d for d, n in enumerate(sizes) if n != 1][before]
    lengths = [static_shape(x)[Cat.dim.of(cat)] for x in cat.operands]
    if 1 in lengths:
        return _B.reshape(value, sizes)
    shapes = [tuple(length if d == dim else n for d, n in enumerate(sizes)) for length in lengths]
    return _B.cat([_with_ones(x, shape) for x, shape in zip(cat.operands, shapes, strict=True)], dim)


def _add(op: ir.Operation) -> Sequence[ir.Value] | None:
    x, y, views = _below_views(*op.operands)
    if shape_of(x) != shape_of(y) or not all(isinstance(n, int) and n > 0 for n in shape_of(x)):
        return None
    if not (_is_own(x) and _is_own(y)):
        return None
    first, second = _Parts.of(x), _Parts.of(y)
    total = _cut((0,) * len(first.sizes), first.sizes, (*first.boxes, *second.boxes))
    # Each part is a kernel, and so is the sum of all.
    if not (first.zeros or second.zeros) or _kernels(total) > first.kernels + second.kernels + 1:
        return None
    made = _built(total, spelling_of(x))
    for view in reversed(views):
        made = repeat_op(view, [made], view.results[0].type).results[0]
    return [made]


def _below_views(x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value, list[ir.Operation]]:
    """(two values below views that are the same for both and that nothing else reads; these views, the lowest first)"""
    views: list[ir.Operation] = []
    while only_user(x) is not None and only_user(y) is not None:
        a, b = maker(x), maker(y)
        if a is None or b is None or a.name != b.name or shape_of(a.operands[0]) != shape_of(b.operands[0]):
            break
        if not (Reshape.matches(a) or (Permute.matches(a) and Permute.dims.of(a) == Permute.dims.of(b))):
            break
        views.append(a)
        x, y = a.operands[0], b.operands[0]
    return x, y, views


def _is_own(value: ir.Value) -> bool:
    """Whether a value is a concatenation that one op reads. One that several read is in memory, and has no parts."""
    return maker(value, Cat) is not None and only_user(value) is not None


@dataclass(frozen=True)
class _Box:
    """A part of a tensor: `sizes` elements from `starts` on, which are those of `source` from `at` on."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    source: ir.Value
    at: tuple[int, ...]

    def within(self, starts: tuple[int, ...], sizes: tuple[int, ...]) -> _Box | None:
        """What of the part lies in another; None for nothing."""
        first = tuple(map(max, self.starts, starts))
        ends = [min(s + n, t + m) for s, n, t, m in zip(self.starts, self.sizes, starts, sizes, strict=True)]
        own = tuple(end - start for end, start in zip(ends, first, strict=True))
        at = tuple(a + f - s for a, f, s in zip(self.at, first, self.starts, strict=True))
        return _Box(first, own, self.source, at) if min(own) > 0 else None


@dataclass(frozen=True)
class _Parts:
    """A tensor of these sizes as its parts, which is zero elsewhere. `zeros` and `kernels` count what is written to
    make it: parts of zeros, and all parts."""

    sizes: tuple[int, ...]
    boxes: tuple[_Box, ...]
    zeros: int
    kernels: int

    @staticmethod
    def of(value: ir.Value) -> _Parts:
        sizes = static_shape(value)
        if number(value) == 0:
            return _Parts(sizes, (), 1, 1)
        if not _is_own(value):
            start = (0,) * len(sizes)
            return _Parts(sizes, (_Box(start, sizes, value, start),), 0, 1)
        cat = value.owner.operation
        dim, (first, second) = Cat.dim.of(cat), map(_Parts.of, cat.operands)
        by = [first.sizes[dim] * (d == dim) for d in range(len(sizes))]
        moved = [
            _Box(tuple(s + n for s, n in zip(box.starts, by, strict=True)), box.sizes, box.source, box.at)
            for box in second.boxes
        ]
        boxes = (*first.boxes, *moved)
        return _Parts(sizes, boxes, first.zeros + second.zeros, first.kernels + second.kernels)


@dataclass(frozen=True)
class _Sum:
    """The sum of parts that fill these sizes; zeros where there are none."""

    sizes: tuple[int, ...]
    boxes: tuple[_Box, ...]


@dataclass(frozen=True)
class _Joined:
    """Two sums side by side along a dim."""

    dim: int
    first: _Tree
    second: _Tree


_Tree: TypeAlias = "_Sum | _Joined"


def _cut(starts: tuple[int, ...], sizes: tuple[int, ...], boxes: Sequence[_Box]) -> _Tree:
    """The part of a tensor from `starts` on as sums side by side."""
    own = tuple(box for x in boxes if (box := x.within(starts, sizes)) is not None)
    # (how many parts are cut in two, dim, place): the first dims are preferred, along which parts are contiguous.
    cuts = [
        (sum(x.starts[d] < at < x.starts[d] + x.sizes[d] for x in own), d, at)
        for box in own
        for d, n in enumerate(box.sizes)
        for at in (box.starts[d], box.starts[d] + n)
        if starts[d] < at < starts[d] + sizes[d]
    ]
    if not cuts:
        return _Sum(sizes, own)
    _, dim, at = min(cuts)
    length = at - starts[dim]
    behind = tuple(at if d == dim else n for d, n in enumerate(starts))
    first = _cut(starts, tuple(length if d == dim else n for d, n in enumerate(sizes)), own)
    return _Joined(dim, first, _cut(behind, tuple(n - length * (d == dim) for d, n in enumerate(sizes)), own))


def _kernels(tree: _Tree) -> int:
    return 1 if isinstance(tree, _Sum) else _kernels(tree.first) + _kernels(tree.second)


def _built(tree: _Tree, spelling: str) -> ir.Value:
    if isinstance(tree, _Joined):
        return _B.cat([_built(tree.first, spelling), _built(tree.second, spelling)], tree.dim)
    if not tree.boxes:
        return _B.constant(0, spelling, tree.sizes)
    return functools.reduce(lambda x, y: _B.pointwise("add", x, y), map(_sliced, tree.boxes))


def _sliced(box: _Box) -> ir.Value:
    x = box.source
    if shape_of(x) == box.sizes:
        return x
    return Slice(x, list(box.at), [1] * len(box.at), result=tensor(box.sizes, spelling_of(x))).result
