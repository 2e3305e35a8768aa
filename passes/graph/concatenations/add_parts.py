"""Adds concatenations part by part, where one of them has zeros.

    %2 = cuesta.cat(%0, %zeros) {dim = 0}              %a = cuesta.add(cuesta.slice(%0), cuesta.slice(%1))
    %3 = cuesta.cat(%zeros, %1) {dim = 0}        →     %4 = cuesta.cat(cuesta.slice(%0), %a, cuesta.slice(%1)) {dim = 0}
    %4 = cuesta.add(%2, %3)

The gradient of a part of a tensor is padded with zeros to the size of the tensor, and the gradients of all parts are
added up. Each would be written, zeros and all, and read again. In parts each element is written once, and what does not
overlap, such as queries, keys and values, is not added at all.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.shape import Cat, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.match import number, only_user
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()
_ADD = pointwise.OPS["add"].OPERATION_NAME


@register_pass("add-parts")
class AddParts(Pass):
    """Rewrites sums of concatenations as concatenations of sums."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {_ADD: _add})
        erase_dead(module)


def _add(op: ir.Operation) -> Sequence[ir.Value] | None:
    if not all(isinstance(n, int) and n > 0 for x in op.operands for n in shape_of(x)):
        return None
    x, y = map(_tree, op.operands)
    if x.sizes != y.sizes or not (isinstance(x, _Joined) and isinstance(y, _Joined)):
        return None
    total = _sum(x, y)
    # Each part is a kernel, and so is the sum of all.
    if not (x.zeros or y.zeros) or total.kernels > x.kernels + y.kernels + 1:
        return None
    return [_built(total, spelling_of(op.results[0]))]


@dataclass(frozen=True)
class _Box:
    """The sum of parts, of these sizes, of tensors; zeros where there is none. Each is (tensor, where the part is)."""

    sizes: tuple[int, ...]
    parts: tuple[tuple[ir.Value, tuple[int, ...]], ...]

    @property
    def kernels(self) -> int:
        return 1

    @property
    def zeros(self) -> bool:
        return not self.parts

    def cut(self, dim: int, at: int) -> tuple[_Tree, _Tree]:
        """What lies before and behind a place along a dim."""
        sizes = [
            tuple(size if d == dim else n for d, n in enumerate(self.sizes)) for size in (at, self.sizes[dim] - at)
        ]
        behind = [(x, tuple(s + at * (d == dim) for d, s in enumerate(starts))) for x, starts in self.parts]
        return replace(self, sizes=sizes[0]), _Box(sizes[1], tuple(behind))


@dataclass(frozen=True)
class _Joined:
    """Two parts side by side along a dim."""

    dim: int
    first: _Tree
    second: _Tree

    @property
    def sizes(self) -> tuple[int, ...]:
        behind = self.second.sizes[self.dim]
        return tuple(n + behind * (d == self.dim) for d, n in enumerate(self.first.sizes))

    @property
    def kernels(self) -> int:
        return self.first.kernels + self.second.kernels

    @property
    def zeros(self) -> bool:
        """Whether some of the parts are zeros."""
        return self.first.zeros or self.second.zeros

    def cut(self, dim: int, at: int) -> tuple[_Tree, _Tree]:
        """What lies before and behind a place along a dim."""
        if dim != self.dim:
            (a, b), (c, d) = self.first.cut(dim, at), self.second.cut(dim, at)
            return _joined(self.dim, a, c), _joined(self.dim, b, d)
        place = self.first.sizes[dim]
        if at == place:
            return self.first, self.second
        if at < place:
            before, rest = self.first.cut(dim, at)
            return before, _joined(dim, rest, self.second)
        rest, behind = self.second.cut(dim, at - place)
        return _joined(dim, self.first, rest), behind


_Tree: TypeAlias = "_Box | _Joined"


def _tree(value: ir.Value) -> _Tree:
    """A value as its parts. A concatenation that several ops read is in memory, and so has none."""
    if number(value) == 0:
        return _Box(static_shape(value), ())
    cat = maker(value, Cat)
    if cat is None or only_user(value) is None:
        return _Box(static_shape(value), ((value, (0,) * len(shape_of(value))),))
    first, second = map(_tree, cat.operands)
    return _joined(Cat.dim.of(cat), first, second)


def _sum(x: _Tree, y: _Tree) -> _Tree:
    if isinstance(x, _Box) and isinstance(y, _Box):
        return _Box(x.sizes, x.parts + y.parts)
    if (isinstance(x, _Box) and x.zeros) or (isinstance(y, _Box) and y.zeros):
        return y if isinstance(x, _Box) and x.zeros else x
    joined = x if isinstance(x, _Joined) else y
    assert isinstance(joined, _Joined)
    at = joined.first.sizes[joined.dim]
    (a, b), (c, d) = x.cut(joined.dim, at), y.cut(joined.dim, at)
    return _joined(joined.dim, _sum(a, c), _sum(b, d))


def _joined(dim: int, first: _Tree, second: _Tree) -> _Tree:
    if isinstance(first, _Box) and isinstance(second, _Box) and first.zeros and second.zeros:
        return _Box(_Joined(dim, first, second).sizes, ())
    return _Joined(dim, first, second)


def _built(tree: _Tree, spelling: str) -> ir.Value:
    if isinstance(tree, _Joined):
        return _B.cat([_built(tree.first, spelling), _built(tree.second, spelling)], tree.dim)
    if tree.zeros:
        return _B.constant(0, spelling, tree.sizes)
    return functools.reduce(_plus, [_sliced(x, starts, tree.sizes) for x, starts in tree.parts])


def _plus(x: ir.Value, y: ir.Value) -> ir.Value:
    return _B.pointwise("add", x, y)


def _sliced(x: ir.Value, starts: Sequence[int], sizes: tuple[int, ...]) -> ir.Value:
    if shape_of(x) == sizes:
        return x
    return Slice(x, list(starts), [1] * len(starts), result=tensor(sizes, spelling_of(x))).result
