"""Turns sums at positions that depend on no input into reads, whose kernel needs neither atomics nor a sort.

    %r = index_put(zeros, [None, None, %i, %j], mul(%g, %w), accumulate=True)        %i, %j: made of arange
 →  %v = mul(index(%g, [None, None, first_i + arange(L), first_j + arange(M)]), index(%w, …))
    %r = sum(where(…, %v, 0), dims of L and M)

Such sums are the gradients of reads at the same positions: of resized images, of embeddings of positions, of attention
scores by distance. While compiling, the positions are known, and so is which elements each place of the result adds up.
The elements of a place are a run: they have to be neighbours. `first` is where a run begins, and L is the length of the
longest run. The mask leaves out what is read beyond the end of a shorter run.

The summed elements are often products of a large tensor, %g, and small weights. The kernel reads both at the positions
and multiplies what it has read, so that the products are never in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate
from cuesta.frontend.fx_nodes import filling_of, is_for_gpu, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter, replace_each
from cuesta.targets import Target
from cuesta.torch_private.fake_tensors import unset_fake_temporarily

aten = torch.ops.aten

#: Reads may be this many times as many as the elements that are summed, or as the results if these are more: most reads
#: find their element in a cache.
_MOST_READS = 16
#: The most positions that a table holds.
_LARGEST = 1 << 20
#: Ops that make the summed elements, and that the kernel can repeat on what it has read.
_POINTWISE = frozenset({aten.mul, aten.add, aten.sub, aten.neg, torch.ops.prims.convert_element_type})
_CONVERT = torch.ops.prims.convert_element_type.default
#: Narrow floats → the type in which they are summed.
_WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}
#: The longest run whose elements are added one after the other.
_ONE_BY_ONE = 8


@dataclass(frozen=True)
class Runs:
    """For each place of a line of results, which elements of a line of values are summed there: `count` elements from
    `first` on."""

    first: Tensor
    count: Tensor
    #: the number of elements of the line of values
    line: int

    @cached_property
    def longest(self) -> int:
        return int(self.count.max())

    @property
    def reads(self) -> int:
        """How many elements are read if each place reads as many as the longest run has."""
        return self.count.numel() * self.longest

    @cached_property
    def is_ragged(self) -> bool:
        return int(self.count.min()) < self.longest


def runs_of(positions: Tensor, places: int) -> Runs | None:
    """The runs of lines along the last dim of `positions`: the elements of a place are those whose position is the
    place's number. None where a position is outside of the places, or the elements of a place are no neighbours."""
    positions = torch.where(positions < 0, positions + places, positions)
    line = positions.shape[-1]
    if not positions.numel() or not bool(((positions >= 0) & (positions < places)).all()):
        return None
    sizes = (*positions.shape[:-1], places)
    own = torch.arange(line).expand_as(positions)
    count = torch.zeros(sizes, dtype=torch.int64).scatter_add(-1, positions, torch.ones_like(positions))
    first = torch.full(sizes, line).scatter_reduce(-1, positions, own, "amin")
    last = torch.full(sizes, -1).scatter_reduce(-1, positions, own, "amax")
    if not bool((torch.where(count > 0, last - first + 1, 0) == count).all()):
        return None
    return Runs(torch.where(count > 0, first, 0), count, line)


def gather_gradients(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites the sums of a joint graph that have constant positions, where that pays on the target. Without a target,
    the device of the tensors decides."""
    sums = [node for node in gm.graph.nodes if packet_of(node) in _SUMS and _pays(node, target)]
    positions = _Positions()

    def total(write: NodeWriter, node: Node) -> Node | None:
        """The sum that a node computes; None where that would not pay."""
        with unset_fake_temporarily():
            return _SUMS[packet_of(node)](write, node, positions)

    replace_each(gm, "runs", sums, total)


def _pays(node: Node, target: Target | None) -> bool:
    """Whether reading is faster. A CPU adds in order without a sort, and has no thousands of threads for the reads: the
    gradient of images resized to four times the sides takes there twice as long in this form."""
    return is_for_gpu(node, target)


class _Positions:
    """The integers that nodes of one graph compute, and the runs of these. Each is evaluated once, because the layers
    of a model often sum at the same positions."""

    def __init__(self) -> None:
        self._values: dict[Node, Tensor | None] = {}
        self._runs: dict[tuple[Any, ...], Runs | None] = {}

    def values(self, nodes: Sequence[Any], user: Node) -> list[Tensor] | None:
        """What nodes compute where `user` reads them; None where one depends on an input, or is no integer."""
        found = []
        for node in nodes:
            if not isinstance(node, Node):
                return None
            if node not in self._values:
                self._values[node] = _integers(node, user)
            if (value := self._values[node]) is None:
                return None
            found.append(value)
        return found

    def runs(self, lines: Tensor, places: int, *key: Any) -> Runs | None:
        """`runs_of(lines, places)`, cached by `places` and by `key`: the node that computes the lines, and how its dims
        are permuted to get them."""
        if (*key, places) not in self._runs:
            self._runs[*key, places] = runs_of(lines, places)
        return self._runs[*key, places]


def _integers(node: Node, user: Node) -> Tensor | None:
    """The integers that a node computes where `user` reads it; None where it depends on an input, or is no integer."""
    meta = node.meta.get("val")
    if not isinstance(meta, Tensor) or meta.dtype not in (torch.int64, torch.int32):
        return None
    try:
        found: Tensor = evaluate(node, user).to(torch.int64)
    except NotConstant:
        return None
    return found


# -- sums of whole slices -----------------------------------------------------------------------
def _index_put(write: NodeWriter, node: Node, positions: _Positions) -> Node | None:
    x, indices, values, *rest = node.args
    assert isinstance(x, Node) and isinstance(values, Node) and isinstance(indices, (list, tuple))
    dims = [d for d, i in enumerate(indices) if i is not None]
    if not (rest and rest[0]) or dims != [*range(dims[0], dims[0] + len(dims))]:
        return None
    given = positions.values([indices[d] for d in dims], node)
    sizes, taken = node.meta["val"].shape, values.meta["val"].shape
    if given is None:
        return None
    places = torch.broadcast_shapes(*(g.shape for g in given))
    at = dims[0]
    if tuple(taken) != (*sizes[:at], *places, *sizes[at + len(dims) :]) or not _are_numbers(taken):
        return None
    if len(given) == 1:
        values = write.call(aten.reshape.default, values, [*taken[:at], math.prod(places), *taken[at + len(places) :]])
        axes, lines = [0], [given[0].flatten()]
    else:
        axes = [axis_of(g, places) for g in given]
        if sorted(axes) != [*range(len(places))]:
            return None
        lines = [g.flatten() for g in given]
    runs = [positions.runs(line, sizes[d], indices[d]) for line, d in zip(lines, dims, strict=True)]
    return _summed(write, x, values, at, axes, runs)


def _embedding(write: NodeWriter, node: Node, positions: _Positions) -> Node | None:
    grad, index, rows, padding, by_frequency = node.args
    assert isinstance(grad, Node) and isinstance(padding, int)
    given = positions.values([index], node)
    if given is None or by_frequency or not isinstance(rows, int) or not _are_numbers(grad.meta["val"].shape):
        return None
    (line,) = given
    if bool(line.eq(padding).any()):
        return None
    width = grad.meta["val"].shape[-1]
    flat = write.call(aten.reshape.default, grad, [line.numel(), width])
    return _summed(write, None, flat, 0, [0], [positions.runs(line.flatten(), rows, index)])


def axis_of(positions: Tensor, places: Sequence[int]) -> int:
    """The dim of `places` that positions lie along; -1 where there is not one."""
    long = [d - len(positions.shape) + len(places) for d, n in enumerate(positions.shape) if n > 1]
    return long[0] if len(long) == 1 else -1


def _summed(
    write: NodeWriter, x: Node | None, values: Node, at: int, axes: Sequence[int], found: Sequence[Runs | None]
) -> Node | None:
    """x with `values` added. Along dim `at` + n the result has the places of runs n, and `values` their line along dim
    `at` + axes[n]. None where reads would not pay."""
    runs = [r for r in found if r is not None]
    if len(runs) < len(found) or any(r.reads > _LARGEST for r in runs):
        return None
    least = max(math.prod(r.line for r in runs), math.prod(r.count.numel() for r in runs))
    if math.prod(r.reads for r in runs) > _MOST_READS * least:
        return None
    reader = _Reader(write, values, at, axes, runs)
    total = reader.read(values)
    if any(r.is_ragged for r in runs):
        rest = len(values.meta["val"].shape) - at - len(runs)
        total = write.call(aten.where.ScalarOther, reader.inside(rest), total, 0)
    if summed := [at + d for d in reader.long_axes]:
        total = write.call(aten.sum.dim_IntList, total, summed)
    return total if x is None else added(write, x, total)


class _Reader:
    """Reads values at runs. What is read has the dims of `frame` where the values have their lines: for each `Runs` a
    dim of places, and behind it a dim of elements if the longest run has more than one."""

    def __init__(self, write: NodeWriter, values: Node, at: int, axes: Sequence[int], runs: Sequence[Runs]) -> None:
        self.write, self.shape, self.at, self.axes, self.runs = write, values.meta["val"].shape, at, axes, runs
        self.frame: list[tuple[int, bool]] = []
        for n, r in enumerate(runs):
            self.frame += [(n, False), (n, True)] if r.longest > 1 else [(n, False)]
        self.root = _root(values)

    @property
    def long_axes(self) -> list[int]:
        """The dims of `frame` that are summed."""
        return [d for d, (_, is_element) in enumerate(self.frame) if is_element]

    def read(self, value: Node) -> Node:
        """`value`, which broadcasts to the shape that is read, at the runs."""
        shape = value.meta["val"].shape
        if value is self.root or tuple(shape) != tuple(self.shape):
            return self._read_in_memory(value)
        args = [self.read(a) if isinstance(a, Node) else a for a in value.args]
        return self.write.call(value.target, *args, **value.kwargs)

    def inside(self, rest: int) -> Node:
        """Which of the elements that are read belong to their place; `rest` dims follow the frame."""
        masks = []
        for n, r in enumerate(self.runs):
            if r.is_ragged:
                own = torch.arange(r.longest) < r.count[:, None]
                masks.append(self._framed(n, self._constant(own), rest))
        mask = masks[0]
        for other in masks[1:]:
            mask = self.write.call(aten.logical_and.default, mask, other)
        return mask

    def _read_in_memory(self, value: Node) -> Node:
        """`value`, broadcast to the frame, with size 1 where it has size 1 along a run."""
        shape = [*value.meta["val"].shape]
        shape = [1] * (len(self.shape) - len(shape)) + shape
        dims = [self.at + axis for axis in self.axes]
        if all(shape[dim] == 1 for dim in dims):
            behind = shape[self.at + len(dims) :]
            return self.write.call(aten.reshape.default, value, [*shape[: self.at], *[1] * len(self.frame), *behind])
        value = self.write.call(aten.reshape.default, value, shape)
        indices: list[Node | None] = [None] * (self.at + len(dims))
        for n, dim in enumerate(dims):
            indices[dim] = self._framed(n, self._positions_of(n)) if shape[dim] > 1 else self._start
        return self.write.call(aten._unsafe_index.Tensor, value, indices)

    @property
    def _start(self) -> Node:
        """The only position along a dim of size 1."""
        return self._constant(torch.zeros([1] * len(self.frame), dtype=torch.int64))

    def _positions_of(self, n: int) -> Node:
        """The positions that run n reads, a line for each place."""
        r = self.runs[n]
        return self._constant((r.first[:, None] + torch.arange(r.longest)).clamp(max=r.line - 1))

    def _constant(self, table: Tensor) -> Node:
        return self.write.constant(table, self.root.meta["val"].device)

    def _framed(self, n: int, value: Node, rest: int = 0) -> Node:
        """A value of run n, with size 1 along the frame's other dims and along `rest` dims behind."""
        shape = [self._size(m, is_element) if m == n else 1 for m, is_element in self.frame]
        return self.write.call(aten.reshape.default, value, shape + [1] * rest)

    def _size(self, n: int, is_element: bool) -> int:
        return self.runs[n].longest if is_element else self.runs[n].count.numel()


def _root(values: Node) -> Node:
    """The one large value that pointwise ops compute `values` from; `values` itself where there are several."""
    shape = tuple(values.meta["val"].shape)
    waiting, seen, leaves = [values], set[Node](), set[Node]()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        meta = node.meta.get("val")
        if not isinstance(meta, Tensor) or tuple(meta.shape) != shape:
            if not isinstance(meta, Tensor) or meta.numel() * 4 > math.prod(shape):
                return values
        elif packet_of(node) in _POINTWISE:
            waiting += node.all_input_nodes
        else:
            leaves.add(node)
    return leaves.pop() if len(leaves) == 1 else values


# -- sums of elements along one dim -------------------------------------------------------------
def _scatter_add(write: NodeWriter, node: Node, positions: _Positions) -> Node | None:
    x, dim, index, values = node.args
    assert isinstance(x, Node) and isinstance(index, Node) and isinstance(values, Node) and isinstance(dim, int)
    base = index.args[0] if packet_of(index) is aten.expand else index
    sizes, taken = node.meta["val"].shape, values.meta["val"].shape
    given = positions.values([base], node)
    if given is None or not _are_numbers(taken) or tuple(index.meta["val"].shape) != tuple(taken) or not sizes:
        return None
    dim %= len(sizes)
    (lines,) = given
    lines = lines.reshape([1] * (len(taken) - lines.dim()) + [*lines.shape])
    others = [d for d in range(len(sizes)) if d != dim]
    if lines.shape[dim] != taken[dim] or any(sizes[d] != taken[d] for d in others):
        return None
    runs = positions.runs(lines.movedim(dim, -1), sizes[dim], base, dim, len(taken))
    if runs is None or runs.count.numel() > _LARGEST:
        return None
    if runs.longest > _ONE_BY_ONE or runs.longest * sizes[dim] > _MOST_READS * max(sizes[dim], taken[dim]):
        return None
    return added(write, x, _along(write, values, dim, runs))


def _along(write: NodeWriter, values: Node, dim: int, runs: Runs) -> Node:
    """Sums of `values` along `dim`. The runs are in lines along the last dim, one for each of the other dims or for
    all."""
    shape, device = values.meta["val"].shape, values.meta["val"].device
    places = [runs.count.shape[-1] if d == dim else n for d, n in enumerate(shape)]

    def placed(table: Tensor) -> Node:
        # All of the result's dims: what is computed from the table joins a kernel that walks them.
        narrow = write.constant(table.movedim(-1, dim).to(torch.int32), device)
        return write.call(aten.expand.default, narrow, places)

    first, count = placed(runs.first), placed(runs.count) if runs.is_ragged else None
    lines = [_line(write, n, len(shape) - d - 1, device) for d, n in enumerate(shape)]

    def element(number: int) -> Node:
        """The elements of all runs that have this number in their run, widened."""
        at = write.call(aten.add.Tensor, first, number) if number else first
        at = write.call(aten.clamp.default, at, 0, runs.line - 1)  # no kernel then looks for negative positions
        read = write.call(aten._unsafe_index.Tensor, values, [at if d == dim else line for d, line in enumerate(lines)])
        if count is not None:
            read = write.call(aten.where.ScalarOther, write.call(aten.gt.Scalar, count, number), read, 0)
        return write.call(_CONVERT, read, _WIDE.get(read.meta["val"].dtype, read.meta["val"].dtype))

    # One after the other: a dim of elements would be padded to a power of two, and its sums cross threads.
    total = element(0)
    for number in range(1, runs.longest):
        total = write.call(aten.add.Tensor, total, element(number))
    return write.call(_CONVERT, total, values.meta["val"].dtype)


def _line(write: NodeWriter, size: int, behind: int, device: torch.device) -> Node:
    """The positions along a dim that is read in order, with `behind` dims of size 1 behind it."""
    line = write.call(aten.arange.default, size, device=device)
    return write.call(aten.reshape.default, line, [size, *[1] * behind])


# -- operands -----------------------------------------------------------------------------------
def _are_numbers(shape: Sequence[Any]) -> bool:
    return all(isinstance(n, int) for n in shape)


def added(write: NodeWriter, x: Node, total: Node) -> Node:
    """x + `total`, without the addition where x is zeros."""
    return total if filling_of(x) == 0 else write.call(aten.add.Tensor, x, total)


#: Writes the sum that a node computes; None where that would not pay.
_Sum: TypeAlias = Callable[[NodeWriter, Node, _Positions], Node | None]
_SUMS: dict[Any, _Sum] = {
    aten.index_put: _index_put,
    aten._unsafe_index_put: _index_put,
    aten.embedding_dense_backward: _embedding,
    aten.scatter_add: _scatter_add,
}
