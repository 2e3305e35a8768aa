"""Returns the results of a host function, each in the memory and with the strides that torch expects.

Results that share memory in torch share memory here; all others are apart, even if their values are equal. So a write
to one result shows in another exactly if it does in torch. The importer's `cuesta.storage` numbers the memories; an
argument and its views have one number. `cuesta.offset` says at which element a result begins: relative to the first
element of the argument that it is a view of, or in the memory that several results share.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from cuesta._mlir import func, ir
from cuesta.dialects.graph_function import MUTATES, OFFSET, STORAGE, result_attributes
from cuesta.dialects.host import Alloc
from cuesta.dialects.types import byte_size, memref_shape, shape_of, spelling_of
from cuesta.passes.analysis.layout import Layout, is_dense, overlaps
from cuesta.passes.form_kernels.placement.assignment import Assignment
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number, hint

Value: TypeAlias = ir.Value
#: A result that is part of a buffer at least this many times as large is copied into memory of its own.
_LARGE_BUFFER = 4


@dataclass
class _Result:
    """A result with its strides. `storage` numbers the memory that it is part of; -1 if unknown. `offset` is where it
    begins in the argument that it is a view of, or in memory shared with other results; None if it shares none."""

    value: Value
    strides: Sequence[Number]
    storage: int
    offset: Number | None

    @property
    def sizes(self) -> Sequence[Number]:
        return shape_of(self.value)

    @property
    def width(self) -> int:
        """Bytes of one element."""
        return byte_size(spelling_of(self.value))

    @property
    def nbytes(self) -> int:
        """Bytes; an estimate if they depend on the call."""
        return hint(math.prod(self.sizes)) * self.width

    @property
    def begin(self) -> Number:
        assert self.offset is not None
        return self.offset

    @property
    def end(self) -> Number:
        """The position after the last element."""
        return self.begin + 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))


def finish(where: Assignment, function: func.FuncOp, returned: list[Value], wanted: list[list[Number]]) -> list[Value]:
    """The memrefs to return, with the strides that torch expects; then the graph's writes to its arguments."""
    mutates = MUTATES.find(function) or []
    outputs = len(returned) - len(mutates)
    arguments = function.regions[0].blocks[0].arguments
    # Base → the importer's number of the memory whose results may be in it. An argument's base is for its views only,
    # unless a result has taken it over.
    bases = [where.layouts[argument].base for argument in arguments]
    claimed = {base: i for i, base in enumerate(bases) if base not in where.reused.values()}
    results = [
        _Result(value, strides, *_memory(attributes))
        for value, strides, attributes in zip(returned, wanted, result_attributes(function), strict=True)
    ][:outputs]
    layouts = _placed_in_arguments(results, len(arguments), claimed)
    layouts |= _placed_together(where, results, layouts, claimed, mutates)
    # The largest first: of several results in one base, the largest stays, and the others (often parts) are copied out.
    for i in sorted(set(range(outputs)) - layouts.keys(), key=lambda i: (-results[i].nbytes, i)):
        layouts[i] = _place(where, results[i], claimed, mutates)
    views = []
    for i, result in enumerate(results):
        views.append(where.view(_named_strides(layouts[i], result.strides), spelling_of(result.value)))
    sources = []
    for value, argument in zip(returned[outputs:], mutates, strict=True):
        layout, target = where.layout_of(value), where.layouts[arguments[argument]]
        if _is_same(layout, target):
            continue  # its kernel has written it in place
        if layout.base in mutates:
            layout = where.copy(value, layout, where.row_major(value))
        sources.append((value, layout, target))
    for value, source, target in sources:
        where.copy(value, source, target)
    return views


def _memory(attributes: ir.DictAttr) -> tuple[int, Number | None]:
    storage, offset = STORAGE.find_in(attributes), OFFSET.find_in(attributes)
    return -1 if storage is None else storage, None if offset is None else offset[0]


def _place(where: Assignment, result: _Result, claimed: dict[int, int], mutates: Sequence[int]) -> Layout:
    """The place of a result: that of its value, or of a copy if that memory belongs to another result or has other
    strides than expected."""
    value, strides = result.value, result.strides
    layout = where.layout_of(value)
    shared = result.storage >= 0 and claimed.setdefault(layout.base, result.storage) != result.storage
    # Whether the caller must get separate memory, though the value is in that of another result or an argument.
    own = shared or layout.base in mutates or _is_small_part(where, result, layout)
    if 0 in strides and not overlaps(_once(layout.sizes, strides), strides):
        if own or not same_places(layout.sizes, layout.strides, strides):
            layout = _repeated(where, value, layout, where.with_strides(value, strides))
    elif 0 in strides:
        layout = where.copy(value, layout, where.row_major(value)) if own else layout
    elif own or not same_places(layout.sizes, layout.strides, strides):
        layout = where.copy(value, layout, where.with_strides(value, strides))
    return layout


def _is_small_part(where: Assignment, result: _Result, layout: Layout) -> bool:
    """Whether a result would keep a buffer at least `_LARGE_BUFFER` times its size alive, of which the caller gets no
    other part: that of a concatenation that holds the result, or of a tensor that the result is a slice of."""
    base = where.bases[layout.base]
    if result.storage < 0 or isinstance(base.owner, ir.Block) or not Alloc.matches(base.owner):
        return False  # an argument's memory or a call's result, whose size is given
    elements = math.prod(memref_shape(base.type)[0])
    extent = 1 + sum((n - 1) * s for n, s in zip(result.sizes, result.strides, strict=True))
    return _LARGE_BUFFER * hint(extent) <= hint(elements)


def _placed_in_arguments(results: Sequence[_Result], arguments: int, claimed: Mapping[int, int]) -> dict[int, Layout]:
    """The index of each result that is a view of an argument, as the argument is after the call → its place."""
    base_of = {storage: base for base, storage in claimed.items()}
    return {
        i: Layout(base_of[result.storage], result.offset, tuple(result.sizes), tuple(result.strides))
        for i, result in enumerate(results)
        if result.offset is not None and 0 <= result.storage < arguments and result.storage in base_of
    }


def _placed_together(
    where: Assignment,
    results: Sequence[_Result],
    placed: Container[int],
    claimed: dict[int, int],
    mutates: Sequence[int],
) -> dict[int, Layout]:
    """The index of each other result that shares memory with further results → its place."""
    groups: dict[int, list[int]] = {}
    for i, result in enumerate(results):
        if result.offset is not None and i not in placed:
            groups.setdefault(result.storage, []).append(i)
    found: dict[int, Layout] = {}
    for positions in groups.values():
        group = [results[i] for i in positions]
        whole = next((r for r in group if all(_holds(r, other) for other in group)), None)
        if whole is not None:
            # All become views of `whole`, wherever their values are stored. The values have several places after a
            # reshape that copies, or if an op returns an argument again as a tensor of its own.
            layout = _place(where, whole, claimed, mutates)
            layouts = [layout if r is whole else _beside(r, whole, layout) for r in group]
        elif len({r.width for r in group}) == 1:
            layouts = _side_by_side(where, group, claimed, mutates)
        else:
            continue  # complex numbers beside parts of others: left apart, as no place is known to hold both
        found.update(zip(positions, layouts, strict=True))
    return found


def _holds(whole: _Result, part: _Result) -> bool:
    """Whether `whole` contains all elements of `part`, as far as their sizes tell."""
    if whole is part:
        return True
    ratio, rest = divmod(whole.width, part.width)  # 2 if `whole` is complex and `part` its real and imaginary parts
    dense = is_dense(whole.sizes, whole.strides) and rest == 0
    return dense and _at_most(whole.begin * ratio, part.begin) and _at_most(part.end, whole.end * ratio)


def _at_most(a: Number, b: Number) -> bool:
    between = b - a
    return isinstance(between, int) and between >= 0


def _beside(result: _Result, other: _Result, layout: Layout) -> Layout:
    """The place of a result that shares memory with `other`, whose place is `layout`."""
    offset = (layout.offset - other.begin) * (other.width // result.width) + result.begin
    return Layout(layout.base, offset, tuple(result.sizes), tuple(result.strides))


def _side_by_side(
    where: Assignment, group: Sequence[_Result], claimed: dict[int, int], mutates: Sequence[int]
) -> list[Layout]:
    """The places of results that share memory, none of which contains all others: their present places, if these fit
    one memory, else places in a fresh copy."""
    first = group[0]
    layouts = [where.layout_of(result.value) for result in group]
    base = layouts[0].base
    wanted = [_beside(result, first, layouts[0]) for result in group]
    free = claimed.get(base, first.storage) == first.storage and base not in mutates
    if free and all(_is_same(layout, place) for layout, place in zip(layouts, wanted, strict=True)):
        claimed[base] = first.storage
        return layouts
    ends = [result.end for result in group]
    fixed = [end for end in ends if isinstance(end, int)]
    size = max(fixed) if len(fixed) == len(ends) else sum(ends)  # no less than the largest
    copied = Layout(where.allocate(spelling_of(first.value), size), first.begin, (), ())
    places = [_beside(result, first, copied) for result in group]
    for result, layout, place in zip(group, layouts, places, strict=True):
        _repeated(where, result.value, layout, place)
    return places


def _once(sizes: Sequence[Number], strides: Sequence[Number]) -> tuple[Number, ...]:
    """The sizes without repetition: 1 along each dim of stride 0."""
    return tuple(1 if stride == 0 else n for n, stride in zip(sizes, strides, strict=True))


def _repeated(where: Assignment, value: Value, layout: Layout, target: Layout) -> Layout:
    """Copies a value that may repeat along dims to `target`, once along each dim that has stride 0 there."""
    once = _once(layout.sizes, target.strides)
    where.copy(value, replace(layout, sizes=once), replace(target, sizes=once))
    return target


def _is_same(a: Layout, b: Layout) -> bool:
    return (a.base, a.offset, a.sizes) == (b.base, b.offset, b.sizes) and same_places(a.sizes, a.strides, b.strides)


def _named_strides(layout: Layout, strides: Sequence[Number]) -> Layout:
    """The layout with torch's strides for dims of size 1, which do not affect the places of elements."""
    return (
        Layout(layout.base, layout.offset, layout.sizes, tuple(strides))
        if same_places(layout.sizes, layout.strides, strides)
        else layout
    )
