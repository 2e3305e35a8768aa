"""Computes before a tensor is repeated, and reshapes before too, so that no repeated tensor is in memory.

    %1 = cuesta.expand(%0) : 8x64x1x1 → 8x64x14x14           %1 = cuesta.div(%0, %49)    : 8x64x1x1
    %2 = cuesta.div(%1, %49)                            →    %2 = cuesta.expand(%1)      : 8x64x14x14

    %1 = cuesta.expand(%0) : 8x1x64x1x1 → 8x2x64x14x14       %1 = cuesta.expand(%0)      : 8x2x64x1x1
    %2 = cuesta.reshape(%1) : 8x128x14x14               →    %2 = cuesta.reshape(%1)     : 8x128x1x1
                                                             %3 = cuesta.expand(%2)      : 8x128x14x14

The gradient of a mean is a number that is repeated. Its readers repeat it for nothing, but a reshape that merges what
is repeated with what is not needs a copy: now one of as few elements as it needs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.shape import Expand, Reshape
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import is_float, shape_of, spelling_of, tensor
from cuesta.passes.analysis.runs import runs
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, hint

_B = GraphBuilder()


@register_pass("sink-expands")
class SinkExpands(Pass):
    """Moves repetitions below pointwise ops of one tensor, and below reshapes."""

    def run(self, module: ir.Module) -> None:
        rules = dict.fromkeys(POINTWISE, _compute_first)
        rewrite_ops(module, rules | {Expand.OPERATION_NAME: _expand_once, Reshape.OPERATION_NAME: _reshape_first})
        erase_dead(module)


def _expand_once(op: ir.Operation) -> Sequence[ir.Value] | None:
    inner = maker(op.operands[0], Expand)
    return None if inner is None else [_B.expand(inner.operands[0], shape_of(op.results[0]))]


def _compute_first(op: ir.Operation) -> Sequence[ir.Value] | None:
    """The expand of a pointwise op of what is expanded, where the other operands are single numbers, and where views
    alone read the result. Others compute it in their kernels, which need no small one before them."""
    if not _is_viewed(op.results[0]):
        return None
    large = {x for x in op.operands if shape_of(x) != ()}
    expand = maker(next(iter(large)), Expand) if len(large) == 1 else None
    if expand is None or shape_of(expand.results[0]) != shape_of(op.results[0]):
        return None
    (x,) = expand.operands
    if not is_float(spelling_of(x)) or not is_float(spelling_of(op.results[0])):
        return None  # positions are counted in the kernel that reads at them
    operands = [y if shape_of(y) == () else x for y in op.operands]
    first = repeat_op(op, operands, tensor(shape_of(x), spelling_of(op.results[0]))).results[0]
    return [_B.expand(first, shape_of(op.results[0]))]


def _is_viewed(value: ir.Value) -> bool:
    """Whether views alone read a value, or what pointwise ops of one tensor make of it."""
    return all(user.name in VIEWS or (_is_of_one_tensor(user) and _is_viewed(user.results[0])) for user in users(value))


def _is_of_one_tensor(op: ir.Operation) -> bool:
    return op.name in POINTWISE and len({x for x in op.operands if shape_of(x) != ()}) == 1


def _reshape_first(op: ir.Operation) -> Sequence[ir.Value] | None:
    """The expand of a reshape of what is expanded, which is expanded before along the dims that merge with others."""
    expand = maker(op.operands[0], Expand)
    if expand is None or not is_float(spelling_of(op.results[0])):
        return None
    (x,), whole, target = expand.operands, shape_of(op.operands[0]), shape_of(op.results[0])
    found = runs(whole, target)
    if found is None:
        return None
    own = [1] * (len(whole) - len(shape_of(x))) + list(shape_of(x))
    partly: list[Number] = []
    reshaped: list[Number] = []
    for before, after in found:
        is_whole = any(own[d] != 1 for d in before)
        partly += [whole[d] if is_whole else 1 for d in before]
        reshaped += [target[d] if is_whole else 1 for d in after]
    if hint(math.prod(partly)) >= hint(math.prod(whole)):
        return None
    first = _B.reshape(_B.expand(_B.reshape(x, own), partly), reshaped)
    return [_B.expand(first, target)]
