"""Tells whether an elementwise op that is computed in parts may read its operands in parts, at no cost."""

from __future__ import annotations

from collections.abc import Callable, Collection

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.views import SELECTS_ELEMENTS
from cuesta.dialects.types import byte_count
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import users

#: An operand of at most this share of the result's bytes may be written to memory.
_SMALL = 0.25


def are_parts_free(
    value: ir.Value, user: ir.Operation, in_memory: Collection[str], is_known: Callable[[ir.Value], bool]
) -> bool:
    """Whether reading a value in parts costs `user` no more than reading the whole: `is_known` says so, the value is a
    view of what an argument or an op of `in_memory` gives, is small, or is computed for `user` alone from such
    values."""
    if is_known(value):
        return True
    op = maker(value)
    while op is not None and op.name in SELECTS_ELEMENTS:
        op = maker(op.operands[0])
    if op is None or op.name in in_memory or byte_count(value) <= _SMALL * byte_count(user.results[0]):
        return True
    if op != maker(value) or op.name not in POINTWISE or any(other != user for other in users(value)):
        return False
    return all(are_parts_free(x, op, in_memory, is_known) for x in op.operands)
