"""Turns sums along the diagonals of matrices into sums of shifted rows, which need neither atomics nor a sort.

    %p = arange(L)[:, None] - arange(S) + (S - 1)               %j = (arange(L)[:, None] + (S - 1)) - arange(L + S - 1)
    %r = index_put(zeros(L + S - 1), [%p], %g, accumulate) →    %v = index(%g, [arange(L)[:, None], clamp(%j)])
                                                                %r = sum(where(0 <= %j < S, %v, 0), 0)

The gradient of a bias by distance, which attention's scores read, is such a sum. Its positions are linear in the
places of the values. That is read off the ops that make them, so tables of any length are never computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.fx_nodes import is_for_gpu, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter, replace_each
from cuesta.frontend.fx_passes.summed_positions.gathered_gradients import added
from cuesta.targets import Target

aten = torch.ops.aten

_SUMS = frozenset({aten.index_put, aten._unsafe_index_put})
_SAME = frozenset({aten.view, aten._unsafe_view, aten.reshape, aten.unsqueeze, aten.squeeze, aten.clone, aten.alias})
_INTEGERS = (torch.int32, torch.int64)
#: All integers on the way to positions must be less, so that none of either type wraps around.
_MOST = 1 << 31
_CONVERSIONS = frozenset({aten._to_copy, torch.ops.prims.convert_element_type})


@dataclass(frozen=True)
class Linear:
    """Integers that are linear in their place: `start`, and for each dim how much a step along it adds."""

    steps: tuple[int, ...]
    start: int

    @staticmethod
    def along(dim: int, rank: int) -> Linear:
        """The places along a dim, of a tensor of this rank."""
        return Linear(tuple(int(d == dim) for d in range(rank)), 0)

    def fits(self, shape: Sequence[int], first: int, behind: int) -> bool:
        """Whether all of a tensor of this shape are at least `first` and less than `behind`."""
        ends = [step * (size - 1) for step, size in zip(self.steps, shape, strict=True)]
        least, most = (self.start + sum(pick(end, 0) for end in ends) for pick in (min, max))
        return least >= first and most < behind


_Known: TypeAlias = "dict[Node, Linear | None]"


def linear(node: Any, known: _Known) -> Linear | None:
    """The integers that a node computes, from positions alone and linear in their place; None for any others. `known`
    has what was found before, and takes what is found."""
    if isinstance(node, int) and not isinstance(node, bool):
        return Linear((), node)
    meta = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(meta, Tensor) or meta.dtype not in _INTEGERS or not all(isinstance(n, int) for n in meta.shape):
        return None
    if node not in known:
        found, shape = _linear(node, tuple(meta.shape), known), tuple(meta.shape)
        if found is not None:
            found = Linear(tuple(step if n > 1 else 0 for step, n in zip(found.steps, shape, strict=True)), found.start)
        known[node] = found if found is not None and found.fits(shape, -_MOST, _MOST) else None
    return known[node]


def _linear(node: Node, shape: Sequence[int], known: _Known) -> Linear | None:
    """As `linear`, for a tensor of this shape. A step along a dim of size 1 may be anything."""
    packet = packet_of(node)
    if packet is aten.arange:
        return _line(node)
    if packet in _CONVERSIONS or packet in _SAME or packet is aten.expand:
        return _moved(node, shape, known)
    if packet is aten.slice:
        return _part(node, known)
    if packet in (aten.add, aten.sub) and not node.kwargs:
        return _sum([linear(x, known) for x in node.args], -1 if packet is aten.sub else 1, shape)
    return None


def _line(node: Node) -> Linear | None:
    numbers = _numbers(node.args)
    if numbers is None or not 1 <= len(numbers) <= 3:
        return None
    first = numbers[0] if len(numbers) > 1 else 0
    return Linear((numbers[2] if len(numbers) > 2 else 1,), first)


def _part(node: Node, known: _Known) -> Linear | None:
    """The integers of a slice."""
    source, *rest = node.args
    found, numbers = linear(source, known), _numbers(rest)
    if found is None or numbers is None or not isinstance(source, Node):
        return None
    dim, first, _, step = (*numbers, *(0, 0, 0, 1)[len(numbers) :])
    size = source.meta["val"].shape[dim]
    first = min(max(first + size if first < 0 else first, 0), size)
    steps = list(found.steps)
    steps[dim] *= step
    return Linear(tuple(steps), found.start + found.steps[dim] * first)


def _numbers(arguments: Sequence[Any]) -> list[int] | None:
    """A call's arguments, if all are integers."""
    return [*arguments] if all(isinstance(n, int) for n in arguments) else None


def _moved(node: Node, shape: Sequence[int], known: _Known) -> Linear | None:
    """The integers of a node's operand in another shape, which differs in dims of size 1 alone, or repeated."""
    source = node.args[0]
    found = linear(source, known)
    if found is None or not isinstance(source, Node):
        return None
    given = tuple(source.meta["val"].shape)
    if packet_of(node) is aten.expand:
        return Linear((0,) * (len(shape) - len(given)) + found.steps, found.start)
    if [n for n in given if n != 1] != [n for n in shape if n != 1]:
        return None
    steps = iter(step for step, n in zip(found.steps, given, strict=True) if n != 1)
    return Linear(tuple(next(steps) if n != 1 else 0 for n in shape), found.start)


def _sum(terms: Sequence[Linear | None], sign: int, shape: Sequence[int]) -> Linear | None:
    if len(terms) != 2 or None in terms:
        return None
    one, other = (((0,) * (len(shape) - len(t.steps)) + t.steps, t.start) for t in terms if t is not None)
    steps = tuple(a + sign * b for a, b in zip(one[0], other[0], strict=True))
    return Linear(steps, one[1] + sign * other[1])


@dataclass(frozen=True)
class Diagonal:
    """How values are summed. Dim `place` of the result has diagonals of the values: that of (row, column) is at
    start + row_step * row + column_step * column, and column_step is 1 or -1. The result's other dims, in order, are
    the dims `kept` of the values."""

    kept: tuple[int, ...]
    place: int
    rows: int
    columns: int
    row_step: int
    column_step: int
    start: int

    @staticmethod
    def of(found: Sequence[Linear], shape: Sequence[int], places: Sequence[int]) -> Diagonal | None:
        """The diagonal that these positions, one for each dim of the result, sum values of this shape along."""
        kept: list[int] = []
        across: list[tuple[int, list[int]]] = []
        for number, positions in enumerate(found):
            moving = [d for d, step in enumerate(positions.steps) if step]
            if len(moving) == 2:
                across.append((number, moving))
            elif (
                len(moving) != 1
                or positions != Linear.along(moving[0], len(shape))
                or shape[moving[0]] != places[number]
            ):
                return None
            else:
                kept += moving
        if len(across) != 1:
            return None
        ((place, (rows, columns)),) = across
        steps, start = found[place].steps, found[place].start
        if len({*kept, rows, columns}) != len(kept) + 2 or abs(steps[columns]) != 1:
            return None
        if not found[place].fits(shape, 0, places[place]):
            return None
        return Diagonal(tuple(kept), place, rows, columns, steps[rows], steps[columns], start)


def sum_diagonals(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites a graph's sums along diagonals for a GPU. A CPU adds in order without a sort."""
    sums = [node for node in gm.graph.nodes if packet_of(node) in _SUMS and is_for_gpu(node, target)]
    replace_each(gm, "diagonals", sums, _summed)


def _summed(write: NodeWriter, node: Node) -> Node | None:
    """The sum that an index_put computes; None for others."""
    indices: Sequence[Any]
    x, indices, values, *rest = node.args  # type: ignore[assignment]
    assert isinstance(x, Node) and isinstance(values, Node)
    places, shape = node.meta["val"].shape, values.meta["val"].shape
    if not values.meta["val"].dtype.is_floating_point or node.meta["val"].dtype != values.meta["val"].dtype:
        return None
    if not (rest and rest[0]) or len(indices) != len(places) or not all(isinstance(n, int) for n in (*places, *shape)):
        return None
    known: _Known = {}
    found = [linear(index, known) for index in indices]
    given = [f for f in found if f is not None]
    if len(given) < len(found) or torch.broadcast_shapes(*(i.meta["val"].shape for i in indices)) != tuple(shape):
        return None
    whole = [Linear((0,) * (len(shape) - len(f.steps)) + f.steps, f.start) for f in given]
    diagonal = Diagonal.of(whole, shape, places)
    return None if diagonal is None else added(write, x, _shifted(write, values, diagonal, places))


def _shifted(write: NodeWriter, values: Node, diagonal: Diagonal, places: Sequence[int]) -> Node:
    """The sums of the values' diagonals."""
    shape, device = values.meta["val"].shape, values.meta["val"].device
    kept = diagonal.kept
    shared = [d for d in range(len(shape)) if d not in (*kept, diagonal.rows, diagonal.columns)]
    lying = write.call(aten.permute.default, values, [*shared, *kept, diagonal.rows, diagonal.columns])
    if shared:
        lying = write.call(aten.sum.dim_IntList, lying, [*range(len(shared))])
    height, width = shape[diagonal.rows], shape[diagonal.columns]
    row = write.call(aten.reshape.default, write.call(aten.arange.default, height, device=device), [height, 1])
    place = write.call(aten.arange.default, places[diagonal.place], device=device)
    at = write.call(aten.add.Tensor, write.call(aten.mul.Tensor, row, diagonal.row_step), diagonal.start)
    column = write.call(aten.mul.Tensor, write.call(aten.sub.Tensor, place, at), diagonal.column_step)
    inside = write.call(
        aten.logical_and.default,
        write.call(aten.ge.Scalar, column, 0),
        write.call(aten.lt.Scalar, column, width),
    )
    near = write.call(aten.clamp.default, column, 0, width - 1)
    read = write.call(aten._unsafe_index.Tensor, lying, [*[None] * len(kept), row, near])
    total = write.call(aten.sum.dim_IntList, write.call(aten.where.ScalarOther, inside, read, 0), [len(kept)])
    order = [*range(len(kept))]
    order.insert(diagonal.place, len(kept))
    return write.call(aten.permute.default, total, order)
