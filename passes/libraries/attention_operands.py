"""Turns the operands of two products into those of an attention op: four dims, heads before they are repeated,
and the strides that the operands have in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.aten import Call
from cuesta.dialects.cuesta.contraction import AddMatMul, MatMul
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Expand, Permute, Reshape, Slice
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.graph_function import STRIDES, argument_attributes
from cuesta.dialects.types import row_major, shape_of
from cuesta.passes.analysis.layout import Layout, is_dense
from cuesta.sizes import Number

_B = GraphBuilder()
#: The views whose layout follows from that of their operand.
_VIEWS = names_of(Reshape, Permute, Slice, Expand)
#: Ops whose results have the strides that they were traced with.
_BY_A_LIBRARY = names_of(MatMul, AddMatMul) | {Call.OPERATION_NAME}
Sizes: TypeAlias = tuple[Number, Number, Number, Number]


def heads_of(operand: ir.Value, sizes: Sizes, grouped: bool = True) -> ir.Value:
    """A product's operand [B*H, N, D] as [B, H, N, D]: the value that it was reshaped from, if that has these sizes.

    `grouped` gives [B, H/n, N, D] where each head was repeated n times.
    """
    value = _above_reshapes(operand, sizes)
    if grouped and (few := _unrepeated(value, sizes)) is not None:
        return few
    return _B.reshape(value, sizes)


def transposed_heads_of(operand: ir.Value, sizes: Sizes, grouped: bool = True) -> ir.Value:
    """Like `heads_of`, for an operand [B*H, D, N], which the attention op takes transposed."""
    batch, heads, rows, depth = sizes
    value = _above_reshapes(operand, (batch, heads, depth, rows))
    op = maker(value, Permute)
    if op is not None and shape_of(value)[-2:] == (depth, rows):
        *lead, last, second_last = Permute.dims.of(op)
        if len(lead) == len(shape_of(value)) - 2:
            inner = _B.permute(op.operands[0], [*lead, second_last, last])
            return heads_of(inner, sizes, grouped)
    return _B.permute(_B.reshape(value, (batch, heads, depth, rows)), [0, 1, 3, 2])


def _above_reshapes(value: ir.Value, sizes: Sizes) -> ir.Value:
    """The value that `value` was reshaped from, above reshapes up to the first value of these sizes."""
    while shape_of(value) != sizes and (op := maker(value, Reshape)) is not None:
        value = op.operands[0]
    return value


def _unrepeated(value: ir.Value, sizes: Sizes) -> ir.Value | None:
    """[B, H/n, N, D] if `value` repeats each head of such a tensor n times, else None."""
    while (op := maker(value, Reshape)) is not None:
        value = op.operands[0]
    op = maker(value, Expand)
    if op is None:
        return None
    batch, heads, rows, depth = sizes
    source, target = shape_of(op.operands[0]), shape_of(value)
    groups = target[1] if len(target) == 5 else 1
    one_group = target == sizes and source == (batch, 1, rows, depth)
    each_repeated = source == (batch, groups, 1, rows, depth)
    if not one_group and (not each_repeated or target != (batch, groups, heads // groups, rows, depth)):
        return None
    return _B.reshape(op.operands[0], (batch, groups, rows, depth))


def strides_for(value: ir.Value) -> Sequence[Number]:
    """The strides that an attention op states for an operand: those in memory, as far as they are known here. ATen's
    kernel relies on 1 for the last dim; without it, row-major strides."""
    sizes = shape_of(value)
    layout, known = _layout(value)
    if layout is None or (sizes[-1] != 1 and layout.strides[-1] != 1):
        return row_major(sizes)
    # An operand with gaps is not copied to match the stated strides: it must have them already.
    return layout.strides if known or is_dense(sizes, layout.strides) else row_major(sizes)


def _layout(value: ir.Value) -> tuple[Layout | None, bool]:
    """(the value's layout, None where a view copies; whether it is certain: a kernel may choose its result's)."""
    owner, sizes = value.owner, shape_of(value)
    if isinstance(owner, ir.Block):
        given = STRIDES.find_in(argument_attributes(owner.owner)[ir.BlockArgument(value).arg_number])
        return Layout(0, 0, sizes, tuple(row_major(sizes) if given is None else given)), given is not None
    if owner.name in _VIEWS:
        source, known = _layout(owner.operands[0])
        return (None if source is None else _viewed(source, owner.operation, sizes)), known
    traced = RESULT_STRIDES.find(owner)
    strides = row_major(sizes) if traced is None else traced[ir.OpResult(value).result_number]
    return Layout(0, 0, sizes, tuple(strides)), owner.name in _BY_A_LIBRARY


def _viewed(source: Layout, view: ir.Operation, sizes: Sequence[Number]) -> Layout | None:
    if Reshape.matches(view):
        return source.reshape(sizes)
    if Permute.matches(view):
        return source.permute(Permute.dims.of(view))
    if Expand.matches(view):
        return source.expand(sizes)
    return source.slice(Slice.starts.of(view), Slice.steps.of(view), sizes)
