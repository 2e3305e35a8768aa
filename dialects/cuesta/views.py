"""Says which ops compute nothing: those whose result is a view of memory, and those that only choose elements."""

from __future__ import annotations

from cuesta.dialects.cuesta.complex_numbers import ViewAsComplex, ViewAsReal
from cuesta.dialects.cuesta.shape import Copy, Expand, Permute, Reshape, Slice, Unfold

#: Ops whose result is a view of their operand's memory, by torch's rules.
VIEWS = frozenset(op.OPERATION_NAME for op in (Reshape, Permute, Expand, Slice, Unfold, ViewAsReal, ViewAsComplex))

#: Ops each element of whose result is one of the operand's, unchanged.
CHOOSES_ELEMENTS = frozenset(op.OPERATION_NAME for op in (Reshape, Permute, Expand, Slice, Copy))
