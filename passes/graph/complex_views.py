"""Removes views between complex numbers and their parts that separate ops which compute on the parts.

    %1 = cuesta.view_as_real(cuesta.complex(%re, %im))           %1 = cuesta.complex(convert %re, convert %im)
    %2 = cuesta.convert(%1) : … -> tensor<4x2xbf16>         →    %2 = cuesta.view_as_real(%1)
    %4 = cuesta.slice(%3 = cuesta.view_as_real(%z)) of [:, 1]    →    %4 = cuesta.imag(%z)
    %6 = cuesta.real(cuesta.view_as_complex(convert %x))         →    %6 = convert(cuesta.real(view_as_complex %x))

A view needs its operand in memory, so a kernel ends there. The views that are left are of arguments, of calls and of
results. Pairs of bf16 or f16, which torch has no type for, are complex numbers here like all others.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.complex_numbers import WHOLES, Complex, Imag, Real, ViewAsComplex, ViewAsReal
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Reshape, Slice
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import Rule, erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()
_COMPUTE = frozenset({*POINTWISE, *reduction.BY_OP_NAME})


def _convert(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,) = op.results
    view = maker(unreshaped(op.operands[0]), ViewAsReal)
    computed = view and maker(view.operands[0], Complex)
    if not view or not computed or spelling_of(result) not in WHOLES:
        return None
    converted = _B.convert_parts(view.operands[0], spelling_of(result))
    return [_B.reshape(_B.view_as_real(converted), shape_of(result))]


def _slice(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,) = op.results
    view = maker(op.operands[0], ViewAsReal)
    starts, sizes = Slice.starts.of(op), shape_of(result)
    if not view or sizes[-1] != 1 or sizes[:-1] != shape_of(view.operands[0]):
        return None
    if maker(view.operands[0], Complex) is None and not _is_computed_with(result):
        return None  # its users want a view of memory
    return [_B.reshape(_B.parts(view.operands[0])[1 if starts[-1] else 0], sizes)]


def _is_computed_with(value: ir.Value) -> bool:
    """Whether a value has users, and all of them only compute with it, directly or through reshapes."""
    found = users(value)
    return bool(found) and all(
        op.name in _COMPUTE or (Reshape.matches(op) and _is_computed_with(op.results[0])) for op in found
    )


def _part(op: ir.Operation) -> Sequence[ir.Value] | None:
    (result,) = op.results
    view = maker(op.operands[0], ViewAsComplex)
    widened = view and maker(unreshaped(view.operands[0]), Convert)
    if not view or not widened or spelling_of(widened.operands[0]) not in WHOLES:
        return None
    narrow = _B.view_as_complex(_B.reshape(widened.operands[0], shape_of(view.operands[0])))
    return [_B.convert(_B.parts(narrow)[Imag.matches(op)], spelling_of(result))]


@register_pass("complex-views")
class ComplexViews(Pass):
    """Removes views between complex numbers and their parts that separate ops which compute on the parts."""

    def run(self, module: ir.Module) -> None:
        rules: dict[str, Rule] = {
            Convert.OPERATION_NAME: _convert,
            Slice.OPERATION_NAME: _slice,
            Real.OPERATION_NAME: _part,
            Imag.OPERATION_NAME: _part,
        }
        rewrite_ops(module, rules)
        erase_dead(module)
