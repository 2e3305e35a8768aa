"""Keeps views as they are: they cost nothing, and accesses have looked through most of them already.

%1 = cuesta.permute(%0)   stays for a slice, a call into ATen or a return that needs it
"""

from __future__ import annotations

from dataclasses import replace

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.affine_maps import squeeze
from cuesta.dialects.cuesta import shape
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder, reshaped
from cuesta.lowering.cuesta_to_linalg.rules import lowers


def _type(op: ir.Operation) -> ir.Type:
    return types.tensor(shape_of(op.results[0]), types.storage(spelling_of(op.results[0])))


@lowers("reshape")
def lower_reshape(b: LinalgBuilder, op: ir.Operation) -> None:
    b.full[op.results[0]] = shape.Reshape(b.full_form(op.operands[0]), _type(op)).result


@lowers("permute")
def lower_permute(b: LinalgBuilder, op: ir.Operation) -> None:
    b.full[op.results[0]] = shape.Permute(b.full_form(op.operands[0]), op.attributes["dims"], _type(op)).result


@lowers("expand")
def lower_expand(b: LinalgBuilder, op: ir.Operation) -> None:
    b.full[op.results[0]] = shape.Expand(b.full_form(op.operands[0]), _type(op)).result


@lowers("slice")
def lower_slice(b: LinalgBuilder, op: ir.Operation) -> None:
    starts, steps = op.attributes["starts"], op.attributes["steps"]
    b.full[op.results[0]] = shape.Slice(b.full_form(op.operands[0]), starts, steps, _type(op)).result


@lowers("unfold")
def lower_unfold(b: LinalgBuilder, op: ir.Operation) -> None:
    dim, step = op.attributes["dim"], op.attributes["step"]
    b.full[op.results[0]] = shape.Unfold(b.full_form(op.operands[0]), dim, step, _type(op)).result


@lowers("cat")
def lower_cat(b: LinalgBuilder, op: ir.Operation) -> None:
    """A part that no generic of its own writes is copied by a generic, which can share a kernel with others."""
    parts = [_copied(b, x) if _is_given(b.access(x)) else b.full_form(x) for x in op.operands]
    b.full[op.results[0]] = shape.Cat(*parts, op.attributes["dim"], _type(op)).result


def _is_given(access: Access) -> bool:
    """Whether no generic of its own can write a part to its place: the part is in memory already, is a constant or a
    range, or has its dims permuted."""
    value = access.source
    if value is None:
        return True
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if op.name != "cuesta.reshape" or squeeze(shape_of(op.operands[0])) != squeeze(shape_of(value)):
            return op.name not in ("linalg.generic", "cuesta.cat") or list(access.dims) != sorted(access.dims)
        value = op.operands[0]
    return True


def _copied(b: LinalgBuilder, x: ir.Value) -> ir.Value:
    loops = [d for d, size in enumerate(shape_of(x)) if size != 1]
    access = b.on_loops(b.access(x), loops)
    access = replace(access, spelling=types.storage(access.spelling))
    with ir.Location.name("copy"):
        copy = b.generic([access], [shape_of(x)[d] for d in loops], access.spelling, lambda s, element: element)
    return reshaped(copy, shape_of(x))


@lowers("copy")
def lower_copy(b: LinalgBuilder, op: ir.Operation) -> None:
    # A value has no address on this level: an op that needs other strides makes the copy.
    b.full[op.results[0]] = b.full_form(op.operands[0])


@lowers("constant", "extent", "iota")
def lower_constant(b: LinalgBuilder, op: ir.Operation) -> None:
    """Nothing to do: users compute the value in place, and `LinalgBuilder` materialises it for users that cannot."""
