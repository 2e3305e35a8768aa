"""Takes slices from the parts of a concatenation, where nothing but slices reads it.

    %2 = cuesta.cat(%0, %1) {dim = 1}                            %4 = %a
      : 4x256, 4x768 → 4x1024                                    %5 = cuesta.slice(%1) {starts = [0, 512]}
    %4 = cuesta.slice(%2) {starts = [0, 0]} : 4x256          →
    %5 = cuesta.slice(%2) {starts = [0, 768]} : 4x256

A write to a part of a tensor (`x[:, :256] = y`) is a concatenation of y and what is left of x, which are slices of x.
After several writes each element is copied as often as there are writes; from the parts each is copied once. Slices of
slices, of permuted tensors, of reshapes that keep the cut apart, and of one number are looked through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.analysis.match import number
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()


@register_pass("slice-parts")
class SliceParts(Pass):
    """Rewrites slices of concatenations as slices of their parts."""

    def run(self, module: ir.Module) -> None:
        # Slices move up until none can: a slice that has moved may let others move.
        while _move_slices(module):
            pass


def _move_slices(module: ir.Module) -> bool:
    """Moves each slice as far up as it can now; whether any has moved."""
    moved: list[ir.Operation] = []
    # Users first. The slices that a later write takes of a tensor have then moved up before an earlier write's slices
    # are looked at, and do not hold these back. With operands first, a round moves the slices of one write only.
    rewrite_ops(module, {Slice.OPERATION_NAME: lambda op: _slice(op, moved)}, users_first=True)
    erase_dead(module)
    return bool(moved)


@dataclass(frozen=True)
class _Box:
    """The part of a tensor from `starts` on, of these sizes."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    def moved(self, by: Sequence[int]) -> _Box:
        return _Box(tuple(s + d for s, d in zip(self.starts, by, strict=True)), self.sizes)

    def cut(self, dim: int, start: int, size: int) -> _Box:
        """Along one dim, this part instead."""
        starts, sizes = list(self.starts), list(self.sizes)
        starts[dim], sizes[dim] = start, size
        return _Box(tuple(starts), tuple(sizes))

    def ordered(self, dims: Sequence[int]) -> _Box:
        return _Box(tuple(self.starts[d] for d in dims), tuple(self.sizes[d] for d in dims))


def _slice(op: ir.Operation, moved: list[ir.Operation]) -> Sequence[ir.Value] | None:
    """The part that a slice takes, from the parts of what it reads; adds the op to `moved` where it does."""
    box = _box_of(op)
    if box is None or not _has_parts(op.operands[0]):
        return None
    part = _part(op.operands[0], box)
    if (same := maker(part, Slice)) is not None and same.operands[0] == op.operands[0]:
        return None  # a reshape is in the way
    moved.append(op)
    return [part]


def _box_of(op: ir.Operation) -> _Box | None:
    """What a slice takes; None where a size is symbolic or elements are left out."""
    starts, sizes = Slice.starts.of(op), shape_of(op.results[0])
    if any(step != 1 for step in Slice.steps.of(op)) or not all(isinstance(n, int) for n in (*starts, *sizes)):
        return None
    return _Box(tuple(map(int, starts)), tuple(map(int, sizes)))


def _has_parts(value: ir.Value) -> bool:
    """Whether a value is a concatenation that only slices read, or a view of one."""
    op = maker(value)
    if op is None or not all(isinstance(n, int) and n > 0 for n in shape_of(value)):
        return False
    if Cat.matches(op):
        taken = _taken(value)
        return taken is not None and taken <= math.prod(map(int, shape_of(value)))
    if Slice.matches(op):
        return _box_of(op) is not None and _has_parts(op.operands[0])
    return (Permute.matches(op) or Reshape.matches(op)) and _has_parts(op.operands[0])


def _taken(value: ir.Value) -> int | None:
    """How many elements slices take of a value, or of views of it; None where something else reads it."""
    total = 0
    for user in set(users(value)):
        own = None
        if Slice.matches(user):
            box = _box_of(user)
            own = None if box is None else math.prod(box.sizes)
        elif Permute.matches(user) or Reshape.matches(user):
            own = _taken(user.results[0])
        if own is None:
            return None
        total += own
    return total


def _part(value: ir.Value, box: _Box) -> ir.Value:
    """A part of a value, from as far up as it can be taken."""
    known, op = number(value), maker(value)
    if known is not None:
        return _B.constant(known, spelling_of(value), box.sizes)
    if op is None or not _has_parts(value):
        return value if box.sizes == tuple(shape_of(value)) else _sliced(value, box)
    if Cat.matches(op):
        return _part_of_parts(op, box)
    (x,) = op.operands
    if Slice.matches(op):
        own = _box_of(op)
        assert own is not None
        return _part(x, box.moved(own.starts))
    if Permute.matches(op):
        return _permuted(_part(x, box.ordered(_inverse(Permute.dims.of(op)))), Permute.dims.of(op))
    apart = _apart(static_shape(x), static_shape(value), box)
    return _sliced(value, box) if apart is None else _reshaped(_part(x, apart), box.sizes)


def _inverse(dims: Sequence[int]) -> list[int]:
    return [dims.index(d) for d in range(len(dims))]


def _permuted(value: ir.Value, dims: Sequence[int]) -> ir.Value:
    """The value permuted; of a concatenation each part, because a concatenation of concatenations is written once where
    no view is between them."""
    cat = maker(value, Cat)
    if cat is None:
        return _B.permute(value, dims)
    return _B.cat([_permuted(x, dims) for x in cat.operands], dims.index(Cat.dim.of(cat)))


def _reshaped(value: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """The value with these sizes; of a concatenation each part, where the cuts stay between elements of one dim."""
    cat, old = maker(value, Cat), static_shape(value)
    if cat is None:
        return _B.reshape(value, sizes)
    lengths = [static_shape(x)[Cat.dim.of(cat)] for x in cat.operands]
    found = _dim_of_runs(old, sizes, Cat.dim.of(cat))
    if found is None or any(length % found[1] for length in lengths):
        return _B.reshape(value, sizes)
    dim, run = found
    shapes = [[*sizes[:dim], length // run, *sizes[dim + 1 :]] for length in lengths]
    return _B.cat([_reshaped(x, shape) for x, shape in zip(cat.operands, shapes, strict=True)], dim)


def _dim_of_runs(old: Sequence[int], new: Sequence[int], dim: int) -> tuple[int, int] | None:
    """(the dim of sizes `new` that counts runs of elements of `dim` of sizes `old`, the elements of a run: one where
    the dim stays); None where a reshape from one to the other joins the dim with others."""
    before, through = math.prod(old[:dim]), math.prod(old[: dim + 1])
    for d, n in enumerate(new):
        if math.prod(new[:d]) == before and n > 1:
            return (d, old[dim] // n) if through in (math.prod(new[:e]) for e in range(d + 1, len(new) + 1)) else None
    return None


def _sliced(value: ir.Value, box: _Box) -> ir.Value:
    kind = tensor(box.sizes, spelling_of(value))
    return Slice(value, list(box.starts), [1] * len(box.starts), result=kind).result


def _part_of_parts(cat: ir.Operation, box: _Box) -> ir.Value:
    dim, at, found = Cat.dim.of(cat), 0, list[ir.Value]()
    for x in cat.operands:
        size = int(shape_of(x)[dim])
        start, end = max(box.starts[dim] - at, 0), min(box.starts[dim] + box.sizes[dim] - at, size)
        if start < end:
            found.append(_part(x, box.cut(dim, start, end - start)))
        at += size
    return found[0] if len(found) == 1 else _B.cat(found, dim)


def _apart(old: Sequence[int], new: Sequence[int], box: _Box) -> _Box | None:
    """The part of a reshape's operand, of sizes `old`, that is `box` of its result, of sizes `new`; None where it is no
    box."""
    starts: list[int] = []
    sizes: list[int] = []
    i = j = 0
    while i < len(old) or j < len(new):
        # The fewest dims on either side that have equally many elements.
        first, second, a, b = i, j, 1, 1
        while a != b or (i, j) == (first, second):
            if a <= b and i < len(old):
                a, i = a * old[i], i + 1
            elif j < len(new):
                b, j = b * new[j], j + 1
            else:
                return None
        start, size = _flat(new[second:j], box.starts[second:j], box.sizes[second:j])
        found = None if size is None else _unflat(old[first:i], start, size)
        if found is None:
            return None
        starts += found[0]
        sizes += found[1]
    return _Box(tuple(starts), tuple(sizes))


def _flat(sizes: Sequence[int], starts: Sequence[int], taken: Sequence[int]) -> tuple[int, int | None]:
    """A box of a tensor as a run of its elements, start and size; the size is None where it is no run."""
    start, size, whole = 0, 1, True
    stride = 1
    for n, at, m in reversed(list(zip(sizes, starts, taken, strict=True))):
        if not whole and m != 1:
            return 0, None
        start, size = start + at * stride, size * m
        whole = whole and m == n
        stride *= n
    return start, size


def _unflat(sizes: Sequence[int], start: int, size: int) -> tuple[list[int], list[int]] | None:
    """A run of a tensor's elements as a box, starts and sizes; None where it is no box."""
    starts: list[int] = []
    taken: list[int] = []
    stride = math.prod(sizes)
    for n in sizes:
        stride //= n
        at, start = divmod(start, stride)
        if size <= stride and start + size <= stride:
            starts.append(at)
            taken.append(1)
            continue
        if start or size % stride:
            return None
        starts.append(at)
        taken.append(size // stride)
        size = stride
    return starts, taken
