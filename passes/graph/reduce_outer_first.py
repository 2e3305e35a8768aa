"""Splits reductions in two: over the dims that are slow in memory first, over short dims that are fastest there last.

    %1 = cuesta.sum(%0) {dims = [1, 3]}       %a = cuesta.sum(%0) {dims = [1]} : 64x8x7x8 → 64x7x8
      : 64x8x7x8 → 64x7                  →    %1 = cuesta.sum(%a) {dims = [2]} : 64x7x8 → 64x7

The first reduction adds contiguous runs, of 56 elements here, which fill vectors. In a single reduction each result
would take eight elements at a time, and add up these eight, eight times as often. Pools of equal windows are such
reductions, too.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Size, estimate

_B = GraphBuilder()

#: The most elements of a reduced contiguous run that is too short to fill vectors by itself.
_SHORT = 32


@register_pass("reduce-outer-first")
class ReduceOuterFirst(Pass):
    """Splits reductions that would go over short contiguous runs."""

    def run(self, module: ir.Module) -> None:
        memory = MemoryOrder()
        # All are found before anything is rewritten: MemoryOrder is keyed by values.
        found: dict[ir.Operation, list[int]] = {}
        for function in functions(module):
            for view in function.regions[0].blocks[0].operations:
                op = view.operation
                if op.name in reduction.BY_OP_NAME and (outer := _outer_dims(op, memory)):
                    found[op] = outer
        rewrite_ops(
            module, dict.fromkeys(reduction.BY_OP_NAME, lambda op: [_apart(op, found[op])] if op in found else None)
        )


def _outer_dims(op: ir.Operation, memory: MemoryOrder) -> list[int]:
    """The reduced dims that are slower in memory than a kept dim, where the dims faster than that are reduced and a
    short run; else none."""
    (x,), dims = op.operands, Reduced.dims.of(op)
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
    name = reduction.BY_OP_NAME[op.name].name
    inner = [d for d in Reduced.dims.of(op) if d not in outer]
    some = _B.reduce(name, _B.convert(x, opmath(spelling_of(x))), outer, keepdim=True)
    return _B.convert(_B.reshape(_B.reduce(name, some, inner), shape_of(result)), spelling_of(result))
