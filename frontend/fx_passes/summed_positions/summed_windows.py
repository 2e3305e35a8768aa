"""Sums of a resized image's gradient, one for each corner that a pixel is made of, become one sum over windows.

    %v = sub(%g, mul(%g, %w)), %u = mul(%g, %w)                                    %i, %j, %w: made of arange
    %r = add(index_put(zeros, [None, None, %i, %j], %v, accumulate),
             index_put(zeros, [None, None, %i + 1, %j], %u, accumulate)) and so on
 →  %r = sum over p, q of A[:, p] * B[:, q] * index(%g, [None, None, first_i + p, first_j + q])

The factors A and B are computed while compiling. So each element that is read is read once for all corners, and nothing
but %g is in memory. The few elements of a place are added one after the other: as a dim of a kernel's block, they would
be padded to a power of two, and their sums would cross threads. Where a place has many, one dim is summed after the
other, which reads the sum of both window sides for each place and not their product.

What is not a sum of products like these is left to `gather-gradients`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from cuesta.frontend.constant_nodes import NotConstant
from cuesta.frontend.constant_values import evaluate
from cuesta.frontend.fx_nodes import filling_of, is_conversion, is_for_gpu, packet_of
from cuesta.frontend.fx_passes.node_writer import NodeWriter
from cuesta.frontend.fx_passes.summed_positions.gathered_gradients import axis_of
from cuesta.frontend.fx_passes.summed_positions.windows import Term, Window, windows_of
from cuesta.targets import Target
from cuesta.torch_private.fake_tensors import unset_fake_temporarily

aten = torch.ops.aten

_PUTS = frozenset({aten.index_put, aten._unsafe_index_put})
#: Ops that scale what they read, if their other operand is known or has the same root.
_SCALING = frozenset({aten.add, aten.sub, aten.mul, aten.neg})
_CONVERT = torch.ops.prims.convert_element_type.default
#: The most elements of a window that are read at once. Windows of more are summed along one dim after the other.
_AT_ONCE = 16
#: The longest window along one dim, whose elements are added one after the other.
_LONGEST = 32
#: Reads may be this many times as many as the elements, or as the results if these are more.
_MOST_READS = 16
#: Narrow floats → the type in which they are summed.
_WIDE = {torch.bfloat16: torch.float32, torch.float16: torch.float32}
#: The most ops on the way from the values to their root.
_DEEPEST = 64

#: Windows that are read at once: dim of the values → windows along it.
Step: TypeAlias = "dict[int, Window]"


class Scaled(NamedTuple):
    """A value as `root` times factors that are known while compiling."""

    root: Node
    factors: Tensor


@dataclass(frozen=True)
class Put:
    """An index_put that adds `values` to zeros, at known positions along the dims from `at` on."""

    node: Node
    values: Scaled
    at: int
    positions: tuple[Tensor, ...]

    @property
    def key(self) -> tuple[Any, ...]:
        """What is equal for sums of which one kernel reads the values."""
        return _sum_of(self.node), self.values.root, self.at, len(self.positions)


def sum_windows(gm: GraphModule, target: Target | None = None) -> None:
    """Rewrites sums of a joint graph for a GPU. A CPU adds in order without a sort."""
    nodes = [n for n in gm.graph.nodes if packet_of(n) in _PUTS and is_for_gpu(n, target)]
    known: dict[Node, Scaled] = {}
    with unset_fake_temporarily():
        puts = [put for n in nodes if (put := _put(n, known)) is not None]
    if not puts:
        return
    write = NodeWriter(gm, "windows")
    groups: dict[tuple[Any, ...], list[Put]] = {}
    for put in puts:
        groups.setdefault(put.key, []).append(put)
    stands_for: dict[Node, Node] = {}
    for group in groups.values():
        _rewrite(write, group, stands_for)
    gm.graph.eliminate_dead_code()
    gm.recompile()


def _rewrite(write: NodeWriter, group: Sequence[Put], stands_for: dict[Node, Node]) -> None:
    """Replaces sums, which are added up, by one. `stands_for` has what stands for nodes that were replaced: the values
    of another group may be such a sum."""
    *others, last = [put.node for put in group]
    root = group[0].values.root
    while root in stands_for:
        root = stands_for[root]
    with last.graph.inserting_before(last), unset_fake_temporarily():
        total = _windowed(write, group, root)
    if total is None:
        return
    for node in others:
        (user,) = node.users
        (stands_for[user],) = [a for a in user.all_input_nodes if a is not node]
        user.replace_all_uses_with(stands_for[user])
        node.graph.erase_node(user)  # the next one is then read by one addition again
    stands_for[last] = total
    last.replace_all_uses_with(total)


def _sum_of(node: Node) -> Node:
    """The last of the additions that only lead on from a node."""
    while len(node.users) == 1:
        (user,) = node.users
        shape, kind = node.meta["val"].shape, node.meta["val"].dtype
        if user.target is not aten.add.Tensor or user.kwargs or user.args[0] is user.args[1]:
            break
        if user.meta["val"].shape != shape or any(not _is_like(a, shape, kind) for a in user.args):
            break
        node = user
    return node


def _is_like(node: Any, shape: Sequence[int], kind: torch.dtype) -> bool:
    meta = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(meta, Tensor) and meta.shape == shape and meta.dtype == kind


# -- what is summed -----------------------------------------------------------------------------
def _put(node: Node, known: dict[Node, Scaled]) -> Put | None:
    """What an index_put adds; None where its positions are not known or cross."""
    x, indices, values, *rest = node.args
    assert isinstance(values, Node) and isinstance(indices, (list, tuple))
    dims = [d for d, i in enumerate(indices) if i is not None]
    at, sizes, taken = dims[0], node.meta["val"].shape, values.meta["val"].shape
    if not (rest and rest[0]) or filling_of(x) != 0 or dims != [*range(at, at + len(dims))]:
        return None
    if not node.meta["val"].dtype.is_floating_point or not all(isinstance(n, int) for n in (*sizes, *taken)):
        return None
    given = [_evaluated(indices[d], node) for d in dims]
    lines = [g for g in given if g is not None and g.dtype in (torch.int64, torch.int32)]
    if len(lines) < len(dims):
        return None
    places = torch.broadcast_shapes(*(line.shape for line in lines))
    if [axis_of(line, places) for line in lines] != [*range(len(places))]:
        return None
    if tuple(taken) != (*sizes[:at], *places, *sizes[at + len(dims) :]):
        return None
    positions = tuple(line.flatten().to(torch.int64) for line in lines)
    return Put(node, _along(_scaled(values, known), values, at, len(dims)), at, positions)


def _evaluated(node: Any, user: Node) -> Tensor | None:
    """What a node computes; None where that depends on an input."""
    if not isinstance(node, Node):
        return None
    try:
        value = evaluate(node, user)
    except NotConstant:
        return None
    return value if isinstance(value, Tensor) else None


def _along(scaled: Scaled, values: Node, at: int, dims: int) -> Scaled:
    """What values are, with factors along these dims alone."""
    rank = len(values.meta["val"].shape)
    factors = scaled.factors.reshape([1] * (rank - scaled.factors.dim()) + [*scaled.factors.shape])
    if any(n > 1 for d, n in enumerate(factors.shape) if not at <= d < at + dims):
        return Scaled(values, torch.ones([1] * dims))
    return Scaled(scaled.root, factors.reshape(factors.shape[at : at + dims]))


def _scaled(node: Node, known: dict[Node, Scaled], depth: int = _DEEPEST) -> Scaled:
    """A value as known factors times the value that is furthest up. `known` has what was found before, and takes what
    is found."""
    if node not in known:
        found = _step(node, known, depth - 1) if depth else None
        known[node] = found or Scaled(node, torch.ones(()))
    return known[node]


def _step(node: Node, known: dict[Node, Scaled], depth: int) -> Scaled | None:
    """As `_scaled`, for a node that scales what it reads; None for any other."""
    packet = packet_of(node)
    if packet not in _SCALING and not is_conversion(node):
        return None
    shape = node.meta["val"].shape
    same = [a for a in node.args if isinstance(a, Node) and a.meta["val"].shape == shape]
    if packet in (aten.add, aten.sub) and len(same) == 2 and not node.kwargs:
        one, other = (_scaled(a, known, depth) for a in same)
        sign = 1 if packet is aten.add else -1
        return Scaled(one.root, one.factors + sign * other.factors) if one.root is other.root else None
    if len(same) != 1:
        return None
    if packet is aten.mul:
        (factor,) = [a for a in node.args if a is not same[0]]
        by = factor if isinstance(factor, (int, float)) else _evaluated(factor, node)
        return None if by is None else _times(_scaled(same[0], known, depth), by)
    if packet is aten.neg:
        return _times(_scaled(same[0], known, depth), -1)
    kinds = [n.meta["val"].dtype for n in (same[0], node)]
    if is_conversion(node) and kinds[0] != kinds[1] and _WIDE.get(kinds[0]) == kinds[1]:
        return _scaled(same[0], known, depth)
    return None


def _times(scaled: Scaled, by: Tensor | float) -> Scaled:
    return Scaled(scaled.root, scaled.factors * by)


# -- how it is read -----------------------------------------------------------------------------
def _windowed(write: NodeWriter, group: Sequence[Put], root: Node) -> Node | None:
    """The sum of a group, whose values are `root` times factors; None where reads would not pay."""
    node, at = group[-1].node, group[-1].at
    sizes = node.meta["val"].shape
    rank = len(group[0].positions)
    terms = [Term(put.positions, put.values.factors.expand([p.numel() for p in put.positions])) for put in group]
    windows = windows_of(terms, sizes[at : at + rank])
    if windows is None or any(w.longest > _LONGEST for w in windows):
        return None
    if math.prod(w.longest for w in windows) <= _AT_ONCE:
        steps = [dict(enumerate(windows, at))]
    else:
        steps = [{at + d: w} for d, w in enumerate(windows)]
    if any(_reads(step) > _MOST_READS * max(_elements(step), _places(step)) for step in steps):
        return None
    total = root
    for step in steps:
        total = _Reader(write, total, step).total
    kind = node.meta["val"].dtype
    return total if total.meta["val"].dtype == kind else write.call(_CONVERT, total, kind)


def _places(step: Step) -> int:
    return math.prod(w.places for w in step.values())


def _elements(step: Step) -> int:
    return math.prod(w.line for w in step.values())


def _reads(step: Step) -> int:
    return math.prod(w.places * w.longest for w in step.values())


class _Element(NamedTuple):
    """An element of the windows along a dim, for each place: its position, whether there is one (None: always), and its
    factor (None: one)."""

    at: Node
    mask: Node | None
    factor: Node | None


class _Reader:
    """Sums values over windows, of which each belongs to a dim of theirs."""

    def __init__(self, write: NodeWriter, values: Node, step: Step) -> None:
        kind = values.meta["val"].dtype
        self.write, self.values, self.kind = write, values, _WIDE.get(kind, kind)
        self.rank = len(values.meta["val"].shape)
        self.first, last = min(step), max(step)
        self.elements = [self._of_window(dim, window, last - dim) for dim, window in step.items()]

    @property
    def total(self) -> Node:
        return self._summed([])

    def _summed(self, at: Sequence[Node]) -> Node:
        """The sum of what is read at these positions along the first dims that have windows."""
        if len(at) == len(self.elements):
            read = self.write.call(aten._unsafe_index.Tensor, self.values, [*[None] * self.first, *at])
            return read if read.meta["val"].dtype == self.kind else self.write.call(_CONVERT, read, self.kind)
        terms = []
        for element in self.elements[len(at)]:
            term = self._summed([*at, element.at])
            if element.factor is not None:
                term = self.write.call(aten.mul.Tensor, term, element.factor)
            if element.mask is not None:
                term = self.write.call(aten.where.ScalarOther, element.mask, term, 0)
            terms.append(term)
        return functools.reduce(functools.partial(self.write.call, aten.add.Tensor), terms)

    def _of_window(self, dim: int, window: Window, inner: int) -> list[_Element]:
        # Each element has tables of its own: what is computed from a table is computed again for each read.
        found, behind = [], self.rank - dim - 1
        for number in range(window.longest):
            own = window.count > number
            at = (window.first + number).clamp(max=window.line - 1)
            mask = None if bool(own.all()) else self._table(own, behind)
            factor = None
            if window.factors is not None:
                factor = self._table(window.factors[:, number].to(self.kind), behind)
            found.append(_Element(self._table(at, inner), mask, factor))
        return found

    def _table(self, table: Tensor, behind: int) -> Node:
        """A number for each place along a dim, with `behind` dims behind it."""
        held = self.write.constant(table, self.values.meta["val"].device)
        return self.write.call(aten.reshape.default, held, [-1, *[1] * behind])
