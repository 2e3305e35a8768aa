"""Keeps views as they are: they cost nothing, and accesses have looked through most of them already.

%1 = cuesta.permute(%0)   stays for a slice, a call into ATen or a return that needs it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cuesta._mlir import ir, linalg
from cuesta.dialects import maker, types
from cuesta.dialects.affine_maps import squeeze
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.shape import Cat, Constant, Copy, Expand, Extent, Iota, Permute, Reshape, Slice, Unfold
from cuesta.dialects.kernel_fields import ROW_MAJOR
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder, reshaped
from cuesta.lowering.cuesta_to_linalg.rules import lowers


def _on_storage(b: LinalgBuilder, op: ir.Operation, operands: Sequence[ir.Value]) -> None:
    """Builds the same op on lowered operands."""
    (result,) = op.results
    kind = types.tensor(shape_of(result), types.storage(spelling_of(result)))
    b.full[result] = repeat_op(op, operands, kind).result


@lowers(Reshape, Permute, Expand, Slice, Unfold)
def lower_view(b: LinalgBuilder, op: ir.Operation) -> None:
    if Permute.matches(op) and Permute.written.is_on(op):
        b.full[op.results[0]] = _copied(b, op.results[0], row_major=True)
    else:
        _on_storage(b, op, [b.full_form(op.operands[0])])


@lowers(Cat)
def lower_cat(b: LinalgBuilder, op: ir.Operation) -> None:
    """A part that no generic of its own writes is copied by a generic, which can share a kernel with others."""

    def part(x: ir.Value) -> ir.Value:
        return _copied(b, x) if _is_given(b.access(x)) and not _reshapes_parts(x) else b.full_form(x)

    _on_storage(b, op, [part(x) for x in op.operands])


#: The ops that write their results themselves, wherever these are to be.
_WRITERS = (linalg.GenericOp.OPERATION_NAME, Cat.OPERATION_NAME)


def _is_given(access: Access) -> bool:
    """Whether no generic of its own can write a part to its place: the part is in memory already, is a constant or a
    range, or has its dims permuted."""
    value = access.source
    if value is None:
        return True
    while not isinstance(value.owner, ir.Block):
        op = value.owner
        if not Reshape.matches(op) or squeeze(shape_of(op.operands[0])) != squeeze(shape_of(value)):
            return op.name not in _WRITERS or list(access.dims) != sorted(access.dims)
        value = op.operands[0]
    return True


def _reshapes_parts(x: ir.Value) -> bool:
    """Whether a value reshapes a concatenation that nothing else reads, whose parts may be written in place."""
    view = maker(x, Reshape)
    return view is not None and maker(view.operands[0], Cat) is not None and all(map(_has_one_use, (x, *view.operands)))


def _has_one_use(x: ir.Value) -> bool:
    return len(list(x.uses)) == 1


def _copied(b: LinalgBuilder, x: ir.Value, *, row_major: bool = False) -> ir.Value:
    loops = [d for d, size in enumerate(shape_of(x)) if size != 1]
    access = b.on_loops(b.access(x), loops)
    access = replace(access, spelling=types.storage(access.spelling))
    with ir.Location.name("copy"):
        copy = b.generic([access], [shape_of(x)[d] for d in loops], access.spelling, lambda s, element: element)
    if row_major:
        ROW_MAJOR.mark(copy.owner)
    return reshaped(copy, shape_of(x))


@lowers(Copy)
def lower_copy(b: LinalgBuilder, op: ir.Operation) -> None:
    # A value has no address on this level: an op that needs other strides makes the copy.
    b.full[op.results[0]] = b.full_form(op.operands[0])


@lowers(Constant, Extent, Iota)
def lower_constant(b: LinalgBuilder, op: ir.Operation) -> None:
    """Nothing to do: users compute the value in place, and `LinalgBuilder` materialises it for users that cannot."""
