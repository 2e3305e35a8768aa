"""Moves a reshape above the pointwise op whose only user it is, so that pointwise ops meet.

    %1 = cuesta.gelu(%0) : tensor<2x128x8xf32>        %1 = cuesta.reshape(%0) : tensor<256x8xf32>
    %2 = cuesta.reshape(%1) : tensor<256x8xf32>   →   %2 = cuesta.gelu(%1)

Every operand must have the result's shape, or be a single number: a reshape of something that
broadcasts is no reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cuesta._mlir import ir
from cuesta.dialects import types
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.passes.graph_rewrite import erase_dead, functions, users
from cuesta.passes.registry import Pass, register_pass

_B = GraphBuilder()
_POINTWISE = frozenset(f"cuesta.{name}" for name in (*pointwise.BY_NAME, "where", "convert"))


def _hoistable(op: ir.Operation) -> bool:
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name not in _POINTWISE:
        return False
    result = owner.results[0]
    if len(users(result)) != 1:
        return False
    shape = types.shape_of(result)
    if shape == ():
        return False  # its operands are single numbers, which stay as they are
    return all(types.shape_of(x) in (shape, ()) for x in owner.operands)


def _hoist(op: ir.Operation) -> None:
    producer, target = op.operands[0].owner, types.shape_of(op.results[0])
    with ir.InsertionPoint(producer), producer.location:
        operands: Sequence[ir.Value] = [
            x if types.shape_of(x) == () else _B.reshape(x, target) for x in producer.operands
        ]
        new = ir.Operation.create(
            producer.name,
            results=[op.results[0].type],
            operands=operands,
            attributes=dict(producer.attributes.items()),
        )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    producer.erase()


@register_pass("hoist-reshapes")
@dataclass(frozen=True)
class HoistReshapes(Pass):
    """Moves reshapes above pointwise ops."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                # Bottom up: a reshape that moved may move again past the op before.
                pending = [o.operation for o in function.regions[0].blocks[0].operations]
                pending = [o for o in reversed(pending) if o.name == "cuesta.reshape"]
                while pending:
                    op = pending.pop(0)
                    if not _hoistable(op):
                        continue
                    producer = op.operands[0].owner
                    sources = [x for x in producer.operands if types.shape_of(x) != ()]
                    _hoist(op)
                    for source in sources:
                        pending[:0] = [u for u in users(source) if u.name == "cuesta.reshape" and u not in pending]
        erase_dead(module)
