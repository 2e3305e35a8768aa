"""Assigns a place to each value of a graph: a buffer, an offset and strides.

Views are layouts over the buffer of the viewed value. If no strides can express a layout, the value is copied by
`write_copy`, which the writer of the host function provides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import host, maker, types
from cuesta.dialects.cuesta.complex_numbers import ViewAsComplex, ViewAsReal
from cuesta.dialects.cuesta.shape import Expand, Permute, Reshape, Slice, Unfold
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.aliases import alias_root
from cuesta.passes.analysis.layout import Layout, dense_strides
from cuesta.passes.analysis.memory_order import reshaped_order
from cuesta.runtime.strides import same_places
from cuesta.sizes import Number, estimate

Value: TypeAlias = ir.Value
#: Calls whose results are new memory, never that of an operand or of something that the library keeps.
_ALLOCATES = frozenset(
    f"aten.{name}.default"
    for name in ("convolution", "convolution_backward", "cudnn_convolution_relu", "cudnn_convolution_add_relu")
)


@dataclass
class Assignment:
    """The buffers of one host function and the values in them. Ops are written at the current insertion point."""

    #: writes a copy of a value from one place to another
    write_copy: Callable[[Value, Layout, Layout], None]
    #: value → its place, once known
    layouts: dict[Value, Layout] = field(default_factory=dict)
    #: buffers, by the numbers (`Layout.base`) that layouts give them: arguments, allocations, results of calls
    bases: list[Value] = field(default_factory=list)
    #: value → the place that it must be written to
    placed: dict[Value, Layout] = field(default_factory=dict)
    #: value → the required order of its dims in memory, if there is one
    preferred: dict[Value, list[int]] = field(default_factory=dict)
    #: output → the buffer that it takes over from a dead input of its kernel
    reused: dict[Value, int] = field(default_factory=dict)
    #: donated arguments that other values may take over; whether results do, or what only the function needs
    donated_reuse: set[int] = field(default_factory=set)
    donated_to_results: bool = False
    #: the roots of results
    results: set[Value] = field(default_factory=set)
    #: output → the place of the argument whose new value the output is
    updated: dict[Value, Layout] = field(default_factory=dict)
    #: root → position of the last unit that reads it, and the position of the unit being built
    last_use: dict[Value, int] = field(default_factory=dict)
    position: int = 0
    _views: dict[tuple[Layout, str], Value] = field(default_factory=dict)

    # -- buffers ------------------------------------------------------------------------------
    def add_base(self, value: Value) -> int:
        self.bases.append(value)
        return len(self.bases) - 1

    def allocate(self, spelling: str, elements: Number) -> int:
        """Allocates a buffer for `elements` numbers."""
        # For a tensor with a size of 0, `elements` may be negative if its other sizes and strides are large.
        kind = types.memref([max(elements, 1) if isinstance(elements, int) else elements], None, spelling)
        (value,) = host.Alloc.build([], [kind], owner="plan").results
        return self.add_base(value)

    def view(self, layout: Layout, spelling: str) -> Value:
        """A memref with this layout."""
        return self._view(layout, spelling, memref(layout.sizes, layout.strides, spelling))

    def strided_view(self, layout: Layout, spelling: str) -> Value:
        """A memref with this layout that states the strides of dims of size 1 as well."""
        # MLIR derives no strides from sizes of 0.
        is_row_major = 0 not in layout.sizes and [*layout.strides] == types.row_major(layout.sizes)
        return self._view(
            layout, spelling, types.memref(layout.sizes, None if is_row_major else layout.strides, spelling)
        )

    def _view(self, layout: Layout, spelling: str, kind: ir.Type) -> Value:
        key = (layout, kind)
        if key not in self._views:
            base = self.bases[layout.base]
            offset = layout.offset * types.byte_size(spelling)
            if offset == 0 and base.type == kind:
                return base
            (self._views[key],) = host.View.build([base], [kind], offset=offset).results
        return self._views[key]

    # -- values -------------------------------------------------------------------------------
    def layout_of(self, value: Value) -> Layout:
        """The place of a value. For a view it is computed from the view's operand, which is copied if no strides can
        express the view."""
        if value in self.layouts:
            return self.layouts[value]
        op = value.owner
        source = self.layout_of(op.operands[0])
        match op.name:
            case Permute.OPERATION_NAME:
                layout = source.permute(Permute.dims.of(op))
            case Expand.OPERATION_NAME:
                layout = source.expand(shape_of(value))
            case Slice.OPERATION_NAME:
                layout = source.slice(Slice.starts.of(op), Slice.steps.of(op), shape_of(value))
            case Unfold.OPERATION_NAME:
                layout = source.unfold(Unfold.dim.of(op), Unfold.step.of(op), shape_of(value))
            case Reshape.OPERATION_NAME:
                attempt = source.reshape(shape_of(value))
                if attempt is None:
                    order = reshaped_order(op, source.strides)
                    copied = self.copy(op.operands[0], source, self.buffer(op.operands[0], order))
                    attempt = copied.reshape(shape_of(value))
                    assert attempt is not None
                layout = attempt
            case ViewAsReal.OPERATION_NAME:
                layout = source.as_real()
            case ViewAsComplex.OPERATION_NAME:
                whole = source.as_complex()
                if whole is None:
                    whole = self.copy(op.operands[0], source, self.row_major(op.operands[0])).as_complex()
                    assert whole is not None
                layout = whole
            case _:
                raise AssertionError(f"{op.name} has no layout yet")
        self.layouts[value] = layout
        return layout

    def row_major(self, value: Value) -> Layout:
        """A fresh row-major buffer for a value."""
        return self.buffer(value, range(len(shape_of(value))))

    def buffer(self, value: Value, order: Sequence[int]) -> Layout:
        """A fresh dense buffer for a value, whose dims have this order in memory."""
        sizes = shape_of(value)
        base = self.allocate(spelling_of(value), math.prod(sizes))
        return Layout(base, 0, sizes, dense_strides(sizes, order))

    def with_strides(self, value: Value, strides: Sequence[Number]) -> Layout:
        """A fresh buffer in which the value has these strides, which must not overlap."""
        sizes = shape_of(value)
        extent = 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
        return Layout(self.allocate(spelling_of(value), extent), 0, sizes, tuple(strides))

    def room(self, value: Value) -> int:
        """The bytes of the buffer that `value` is placed in, if this function allocates it; else of `value` alone."""
        place = self.placed.get(value)
        if place is None or maker(self.bases[place.base], host.Alloc) is None:
            return types.byte_count(value)
        elements, _ = types.memref_shape(self.bases[place.base].type)
        return types.byte_size(spelling_of(value)) * estimate(elements)

    def copy(self, value: Value, source: Layout, target: Layout) -> Layout:
        """Copies `value`, or a part of it, from `source` to `target`, and returns `target`."""
        if 0 not in source.sizes:
            self.write_copy(value, source, target)
        return target

    # -- liveness -----------------------------------------------------------------------------
    def dies(self, value: Value, layout: Layout) -> bool:
        """Whether the host function allocates the value's buffer, or a library for it, and the unit being built is its
        last reader."""
        owner = self.bases[layout.base].owner
        allocates = not isinstance(owner, ir.Block) and (host.Alloc.matches(owner) or self.is_librarys(layout))
        return allocates and self.is_last_use(value)

    def is_librarys(self, layout: Layout) -> bool:
        """Whether a buffer is new memory that a library has allocated for its result."""
        owner = self.bases[layout.base].owner
        is_call = not isinstance(owner, ir.Block) and host.Call.matches(owner)
        return is_call and host.Call.overload.of(owner) in _ALLOCATES

    def is_last_use(self, value: Value) -> bool:
        return self.last_use.get(alias_root(value), -1) == self.position


def memref(sizes: Sequence[Number], strides: Sequence[Number], spelling: str) -> ir.Type:
    """The memref type with these sizes and strides."""
    row = dense_strides(sizes, range(len(sizes)))
    # A tensor without elements keeps torch's strides, which count a size of 0 as 1.
    is_row_major = 0 not in sizes and same_places(sizes, strides, row)
    return types.memref(sizes, None if is_row_major else strides, spelling)
