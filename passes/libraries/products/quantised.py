"""Multiplies by a quantised weight without widening it first: scales and zeros are applied to sums, not to elements.

    W[n, k] = (values[n, k] - zero[n, g]) * scale[n, g]                       g: the group of k
    x · W[n, :] = sum over g of scale[n, g] * (sum over the group of x * values - zero[n, g] * sum over it of x)

That is how users write a weight of 8 or 4 bits, floats of 8 bits among them: conversion, difference, scale, product.
Where it is multiplied by a vector, or on a CPU by a few rows, the kernel then reads the weight as it is stored, and
each element costs its conversion and one multiplication for each row.
Values of 4 bits that are unpacked and interleaved stay apart: each half is multiplied by its own elements of x. The
scaled weight is not rounded, so sums are more exact than eager's. On a GPU a group's sums are finished before they are
scaled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape
from cuesta.passes.analysis.match import number
from cuesta.passes.form_kernels.fusion.contractions import SHORT, SPANNED
from cuesta.policy.few_rows import FEW_ROWS, MOST_COPIED, MOST_COPIED_WIDE
from cuesta.runtime.dtypes import FLOAT8
from cuesta.sizes import Number

_B = GraphBuilder()
Value: TypeAlias = ir.Value

#: Integers that bf16 and f16 hold exactly.
NARROW_INTEGERS = ("i8", "ui8")
#: The types that a quantised weight is stored in.
NARROW = (*NARROW_INTEGERS, *FLOAT8)
_FLOATS = ("f32", "bf16", "f16")
#: The fewest bytes of a row that `multiply-quantised` unpacks at once.
_BYTES_AT_ONCE = 16
_MUL, _SUB, _AND, _SHIFT = (pointwise.OPS[name] for name in ("mul", "sub", "bitwise_and", "bitwise_right_shift"))


@dataclass(frozen=True)
class Quantised:
    """A weight [N, K] in `groups` groups of equal length along K. Element k of row n is
    (parts[k % P][n, k // P] - zero[n, g]) * scale[n, g], with P parts [N, K / P]."""

    groups: int
    #: K / P: where parts are halves of bytes, the bytes of a row
    size: int
    parts: tuple[Value, ...]
    #: [N, groups], or a number for all; None: 1 and 0
    scale: Value | None
    zero: Value | None

    @staticmethod
    def of(weight: Value) -> Quantised | None:
        """How a weight [N, K] is quantised; None for any other value."""
        rows, length = shape_of(weight)
        if not isinstance(rows, int) or not isinstance(length, int):
            return None
        scaled, scale, zero = _unreshaped(weight), None, None
        product = maker(scaled, _MUL)
        if product is not None:
            pairs = (list(product.operands), list(product.operands)[::-1])
            found = [(x, y) for x, y in pairs if _is_of_groups(y, x, rows)]
            if not found:
                return None
            scaled, scale = _unreshaped(found[0][0]), found[0][1]
        difference = maker(scaled, _SUB)
        if difference is not None:
            scaled, zero = _unreshaped(difference.operands[0]), difference.operands[1]
            if not _is_of_groups(zero, difference.operands[0], rows):
                return None
        converted = maker(scaled, Convert)
        if converted is None or spelling_of(converted.operands[0]) not in NARROW:
            return None
        values, offset = _less_a_number(_unreshaped(converted.operands[0]))
        if offset is not None:
            if zero is not None:
                return None
            zero = offset
        given = [static_shape(x) for x in (scale, zero) if x is not None]
        counts = {math.prod(shape) // rows for shape in given if shape} - {0}
        groups = max(counts, default=1)
        parts = _parts(values)
        if not counts <= {1, groups} or length % (groups * len(parts)):
            return None
        return Quantised(groups, length // len(parts), parts, scale, zero)

    def fits(self, rows: Number) -> bool:
        """Whether a kernel multiplies so many rows at once by each row of the weight. On a CPU `multiply-quantised`
        lowers it, so bytes must be as they are stored, and groups as long as it unpacks at once."""
        if rows == 1:
            return True
        if not isinstance(rows, int) or not 1 < rows <= FEW_ROWS:
            return False
        has_scales = self.scale is not None and len(shape_of(self.scale)) > 0
        if self.groups > 1 and not has_scales:
            return False
        is_stored = _is_stored(self.parts[0]) if len(self.parts) == 1 else _are_halves(self.parts)
        is_float = spelling_of(self.parts[0]) in FLOAT8
        whole_groups = (self.groups == 1 and not is_float) or self.size % (self.groups * _BYTES_AT_ONCE) == 0
        return is_stored and whole_groups and rows * self.size <= (MOST_COPIED_WIDE if is_float else MOST_COPIED)

    @property
    def has_short_groups(self) -> bool:
        """Whether a kernel on a GPU holds the sums of all groups of a row (`times_by_groups`)."""
        is_paired = len(self.parts) <= 2
        return is_paired and self.groups > 1 and self.size // self.groups <= SHORT and self.size <= SPANNED

    def times(self, x: Value, columns: Sequence[Number], is_narrow: bool) -> Value:
        """The product of rows x [M, K] by the weight, f32 [M, *columns], with N split into `columns`. `is_narrow` says
        that the result will be rounded to 16 bits, so that zeros may be subtracted from sums."""
        ones = [1] * len(columns)
        along = [self.groups] if self.groups > 1 else []
        wide = _B.convert(x, "f32")
        (rows, k), count = shape_of(x), len(self.parts)
        length = k // (self.groups * count)
        zero = None if self.zero is None else self._of_columns(self.zero, columns)
        total = None
        for p, part in enumerate(self.parts):
            own = x if count == 1 else _B.slice(_B.reshape(x, [rows, k // count, count]), 2, p, 1)
            own = _B.convert(own, "f32")
            values = _B.convert(_B.reshape(part, [1, *columns, *along, length]), "f32")
            if zero is not None and not is_narrow:
                values = _B.pointwise("sub", values, _beside(zero))
            term = _B.pointwise("mul", _B.reshape(own, [rows, *ones, *along, length]), values)
            total = term if total is None else _B.pointwise("add", total, term)
        scale = None if self.scale is None else self._of_columns(self.scale, columns)
        last = len(ones) + 1
        if along and scale is not None:
            total = _B.pointwise("mul", total, _beside(scale))
        sums = _B.reduce("sum", total, [last, last + 1] if along else [last])
        if zero is not None and is_narrow:
            if along and scale is not None:
                zero = _B.pointwise("mul", zero, scale)
            of_x = _B.reduce("sum", _B.reshape(wide, [rows, *ones, *along, length * count]), [last + len(along)])
            offset = _B.pointwise("mul", zero, of_x)
            sums = _B.pointwise("sub", sums, _B.reduce("sum", offset, [last]) if along else offset)
        return sums if along or scale is None else _B.pointwise("mul", sums, scale)

    def times_by_groups(self, x: Value, columns: Sequence[Number]) -> Value:
        """The product of one row x [1, K] by a weight with groups, f32 [1, *columns], with N split into `columns`. Each
        group's sums are finished first, so that scale and zero cost one operation for the group. The sum of x over a
        group is written as one for each column, though it is the same: so it has the loops of the other sums, and is in
        their kernel."""
        (_, k), ones = shape_of(x), [1] * len(columns)
        length = k // self.groups
        group = [length] if len(self.parts) == 1 else [length // 2, 2]
        sizes, last = [1, *columns, self.groups, *group], len(columns) + 1
        # Values of 4 bits are taken 128 higher: as floats they have the bits of 128, with their own in the middle.
        higher = 128 if all(_has_four_bits(_unreshaped(part)) for part in self.parts) else 0
        values = self._values(sizes, higher)
        own = _B.convert(_B.expand(_B.reshape(x, [1, *ones, self.groups, *group]), sizes), "f32")
        within = [last + 1 + n for n in range(len(group))]
        total = _B.reduce("sum", _B.pointwise("mul", own, values), within)
        of_x = _B.reduce("sum", own, within)
        scale = None if self.scale is None else self._of_columns(self.scale, columns)
        zero = None if self.zero is None else self._of_columns(self.zero, columns)
        if higher:
            zero = _B.constant(higher, "f32") if zero is None else _B.with_number("add", zero, higher)
        if scale is not None:
            total = _B.pointwise("mul", total, scale)
            zero = None if zero is None else _B.pointwise("mul", zero, scale)
        result = _B.reduce("sum", total, [last])
        if zero is None:
            return result
        # A sum of its own, and no difference of products: products are rounded before they are subtracted, and then the
        # whole kernel would do without the instruction that multiplies and adds.
        return _B.pointwise("sub", result, _B.reduce("sum", _B.pointwise("mul", zero, of_x), [last]))

    def _values(self, sizes: Sequence[Number], higher: int) -> Value:
        """The values of the weight in f32, of these sizes, and `higher` by a number. Those of two parts lie beside each
        other along the last dim, as those of x that they are multiplied by, which is read where it lies."""
        if len(self.parts) > 1:
            sizes = [*sizes[:-1], 1]
        wide = [_B.convert(_B.reshape(part, sizes), "f32") for part in self.parts]
        own = [_B.with_number("add", x, higher) if higher else x for x in wide]
        return own[0] if len(own) == 1 else _B.cat(own, len(sizes) - 1)

    def _of_columns(self, x: Value, columns: Sequence[Number]) -> Value:
        """A scale or zero [1, *columns, groups] in f32, without the last dim if there is one group."""
        x = _B.convert(x, "f32")
        if shape_of(x) == ():
            return x
        count = math.prod(shape_of(x)) // math.prod(columns)
        return _B.reshape(x, [1, *columns, *([count] if self.groups > 1 else [])])


def _beside(x: Value) -> Value:
    """A scale or zero with a dim of size 1 for the elements of a group; a single number as it is."""
    return _B.reshape(x, [*shape_of(x), 1]) if shape_of(x) else x


def quantised_factor(b: Value) -> Quantised | None:
    """How a right factor [K, N] of a product is quantised, if it is a turned weight that is; else None."""
    turned = maker(b, Permute)
    return None if turned is None or len(shape_of(b)) != 2 else Quantised.of(turned.operands[0])


def _is_of_groups(x: Value, of: Value, rows: int) -> bool:
    """Whether x is one number, or has a number for each row of `of`, or for each of its runs along the last dim."""
    own, shape = shape_of(x), shape_of(of)
    if own == ():
        return True
    is_static = all(isinstance(n, int) for n in (*own, *shape))
    return is_static and shape[:1] == (rows,) and own in ((rows, *(1 for _ in shape[1:])), (*shape[:-1], 1))


def _unreshaped(x: Value) -> Value:
    """The value that a value was made from by reshapes and by conversions of floats to floats."""
    while (op := maker(x, Reshape) or maker(x, Convert)) is not None:
        if Convert.matches(op) and spelling_of(op.operands[0]) not in _FLOATS:
            break
        x = op.operands[0]
    return x


def _less_a_number(x: Value) -> tuple[Value, Value | None]:
    """The values of 4 bits from which integers subtract a number, and the number; x itself and None for anything else.
    Larger values might wrap around."""
    difference = maker(x, _SUB)
    if difference is None or shape_of(difference.operands[1]) != ():
        return x, None
    values = _unreshaped(difference.operands[0])
    if (converted := maker(values, Convert)) is not None and spelling_of(converted.operands[0]) in NARROW_INTEGERS:
        values = _unreshaped(converted.operands[0])
    offset = number(difference.operands[1])
    has_four_bits = all(_has_four_bits(_unreshaped(part)) for part in _parts(values))
    return (values, difference.operands[1]) if has_four_bits and offset is not None and 0 <= offset <= 15 else (x, None)


def _is_stored(x: Value) -> bool:
    """Whether a value is an argument of 8 bits an element, or a view of one."""
    x = _unreshaped(x)
    return isinstance(x.owner, ir.Block) and spelling_of(x) in NARROW


def _are_halves(parts: Sequence[Value]) -> bool:
    """Whether two parts are the lower and the upper half of the same bytes, which are stored."""
    cuts = [_unreshaped(part).owner for part in parts]
    if len(cuts) != 2 or any(isinstance(cut, ir.Block) for cut in cuts):
        return False
    names = [(_AND.OPERATION_NAME, 15), (_SHIFT.OPERATION_NAME, 4)]
    if any(cut.name != name or number(cut.operands[1]) != by for cut, (name, by) in zip(cuts, names, strict=True)):
        return False
    sources = [_unreshaped(cut.operands[0]) for cut in cuts]
    return sources[0] == sources[1] and _is_stored(sources[0]) and spelling_of(sources[0]) == "ui8"


def _has_four_bits(x: Value) -> bool:
    """Whether a value is from 0 to 15: what a mask leaves, or the upper half of a byte."""
    op = x.owner
    if isinstance(op, ir.Block) or len(op.operands) != 2 or (own := number(op.operands[1])) is None:
        return False
    if op.name == _AND.OPERATION_NAME:
        return 0 <= own <= 15
    return op.name == _SHIFT.OPERATION_NAME and spelling_of(x) == "ui8" and 4 <= own < 8


def _parts(x: Value) -> tuple[Value, ...]:
    """The values that are interleaved along the last dim of x; x itself if it is no such value."""
    op = maker(x, Cat)
    if op is None or Cat.dim.of(op) != len(shape_of(x)) - 1 or any(shape_of(y)[-1] != 1 for y in op.operands):
        return (x,)
    return tuple(op.operands)
