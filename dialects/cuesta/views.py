"""Lists the ops that compute nothing: those whose result is a view, and those that only select elements."""

from __future__ import annotations

from cuesta.dialects.cuesta.complex_numbers import ViewAsComplex, ViewAsReal
from cuesta.dialects.cuesta.dialect import names_of
from cuesta.dialects.cuesta.shape import Copy, Expand, Permute, Reshape, Slice, Unfold

#: Ops whose result is a view of their operand's memory, by torch's rules.
VIEWS = names_of(Reshape, Permute, Expand, Slice, Unfold, ViewAsReal, ViewAsComplex)

#: Ops whose result has only elements of their operand, unchanged.
SELECTS_ELEMENTS = names_of(Reshape, Permute, Expand, Slice, Copy)
