"""Reduces along dims that lie apart in memory first, and along the short one that is fastest there last.

    %1 = cuesta.sum(%0) {dims = [1, 3]}       %a = cuesta.sum(%0) {dims = [1]} : 64x8x7x8 → 64x7x8
      : 64x8x7x8 → 64x7                  →    %1 = cuesta.sum(%a) {dims = [2]} : 64x7x8 → 64x7

What one pass of the first adds lies beside each other, 56 elements here, and fills vectors; as one reduction each of
its results would take eight at a time, and add these up eight times as often. So are pools of equal windows.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import ints
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Size, estimate

_B = GraphBuilder()
_REDUCTIONS = frozenset(f"cuesta.{name}" for name in reduction.BY_NAME)

#: Elements that lie together and are reduced, up to which they are too few to fill vectors by themselves.
_SHORT = 32


@register_pass("reduce-outer-first")
class ReduceOuterFirst(Pass):
    """Takes reductions apart that would go over short runs of memory."""

    def run(self, module: ir.Module) -> None:
        memory = MemoryOrder()
        # All is found before anything is rewritten: MemoryOrder goes by values.
        found: dict[ir.Operation, list[int]] = {}
        for function in functions(module):
            for view in function.regions[0].blocks[0].operations:
                op = view.operation
                if op.name in _REDUCTIONS and (outer := _outer_dims(op, memory)):
                    found[op] = outer
        rewrite_ops(module, dict.fromkeys(_REDUCTIONS, lambda op: [_apart(op, found[op])] if op in found else None))


def _outer_dims(op: ir.Operation, memory: MemoryOrder) -> list[int]:
    """The reduced dims that a kept one parts from a short run of reduced ones, which is fastest in memory; none where
    they do not lie so."""
    (x,), dims = op.operands, ints(op.attributes["dims"])
    sizes = shape_of(x)
    if any(isinstance(n, Size) for n in sizes):
        return []
    order = [d for d in memory.order(x) if sizes[d] != 1]
    inner: list[int] = []
    while order and order[-1] in dims:
        inner.append(order.pop())
    outer = [d for d in order if d in dims]
    is_short = bool(inner) and estimate(sizes[d] for d in inner) <= _SHORT
    return sorted(outer) if is_short and order and order[-1] not in dims else []


def _apart(op: ir.Operation, outer: list[int]) -> ir.Value:
    (x,), (result,) = op.operands, op.results
    name = op.name.removeprefix("cuesta.")
    inner = [d for d in ints(op.attributes["dims"]) if d not in outer]
    some = _B.reduce(name, _B.convert(x, opmath(spelling_of(x))), outer, keepdim=True)
    return _B.convert(_B.reshape(_B.reduce(name, some, inner), shape_of(result)), spelling_of(result))
