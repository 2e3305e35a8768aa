"""Reduces whole rows first where a permuted tensor is reduced over dims before and behind one that is kept.

    %1 = cuesta.permute(%0) {dims = [0, 2, 1]}          %a = cuesta.sum(%0) {dims = [2], keepdim} : 64x196x1
      : 64x196x768 → 64x768x196                      →  %3 = cuesta.sum(%a) {dims = [0, 2]} : 196
    %2 = cuesta.reshape(%1) : 49152x196
    %3 = cuesta.sum(%2) {dims = [0]} : 196

The gradient of a bias of tokens is such a sum. The reshape, which joins reduced dims, would copy the permuted tensor.
The rows are reduced in the kernel that has them, such as that of a norm's gradients, and what is left is small.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.reduction import Reduced
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.analysis.memory_order import MemoryOrder
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number, Size, estimate

_B = GraphBuilder()
#: Op → its row, for reductions whose partial results are joined by the same reduction.
_JOINED = {reduction.OPS[name].OPERATION_NAME: name for name in ("sum", "amax", "amin")}
#: The fewest elements of a row: the row's kernel writes one for each row, and few rows fill a warp.
_FEWEST = 128


@register_pass("reduce-rows-first")
class ReduceRowsFirst(Pass):
    """Splits reductions over rows, and over dims before the one that is kept."""

    def run(self, module: ir.Module) -> None:
        memory = MemoryOrder()
        # All are found before anything is rewritten: MemoryOrder is keyed by values.
        found: dict[ir.Operation, tuple[ir.Value, list[int], list[int]]] = {}
        for function in functions(module):
            for view in function.regions[0].blocks[0].operations:
                if view.operation.name in _JOINED and (plan := _plan(view.operation, memory)) is not None:
                    found[view.operation] = plan
        rewrite_ops(module, dict.fromkeys(_JOINED, lambda op: [_apart(op, *found[op])] if op in found else None))
        erase_dead(module)


def _plan(op: ir.Operation, memory: MemoryOrder) -> tuple[ir.Value, list[int], list[int]] | None:
    """What an op reduces, below views; the dims of its rows, and the other reduced dims. None for other reductions."""
    x, dims = _below_views(op.operands[0], Reduced.dims.of(op))
    sizes = shape_of(x)
    if x == op.operands[0] or any(isinstance(n, Size) for n in sizes):
        return None
    order = [d for d in memory.order(x) if sizes[d] != 1]
    rows: list[int] = []
    while order and order[-1] in dims:
        rows.append(order.pop())
    others = [d for d in order if d in dims]
    kept = [d for d in order if d not in dims]
    is_between = bool(others and kept) and order[-1] not in dims
    if not is_between or estimate(sizes[d] for d in rows) < _FEWEST or kept != sorted(kept):
        return None
    return x, sorted(rows), [d for d in dims if d not in rows]


def _below_views(x: ir.Value, dims: Sequence[int]) -> tuple[ir.Value, list[int]]:
    """What permutes, and reshapes that only join reduced dims, are views of; and its dims that are reduced there. A
    value without such a reshape is left as it is: a permute alone is read in place."""
    if maker(_narrow(x), Reshape) is None:
        return x, list(dims)
    x, chosen = _narrow(x), list(dims)
    while (view := maker(x)) is not None:
        if Permute.matches(view):
            order = Permute.dims.of(view)
            x, chosen = view.operands[0], [order[d] for d in chosen]
        elif Reshape.matches(view) and (apart := _apart_again(view, chosen)) is not None:
            x, chosen = view.operands[0], apart
        else:
            break
    return x, sorted(chosen)


def _narrow(x: ir.Value) -> ir.Value:
    """What a value was converted from, if only to be summed."""
    conversion = maker(x, Convert)
    if conversion is None or opmath(spelling_of(conversion.operands[0])) != spelling_of(x):
        return x
    source: ir.Value = conversion.operands[0]
    return source


def _apart_again(reshape: ir.Operation, dims: Sequence[int]) -> list[int] | None:
    """The dims of a reshape's operand that are reduced if `dims` of its result are; None where it does more than join
    reduced dims."""
    old, new = shape_of(reshape.operands[0]), shape_of(reshape.results[0])
    found: list[int] = []
    at = 0
    for d, size in enumerate(new):
        first = at
        left: Number = 1
        while at < len(old) and (left != size or at == first):
            left, at = left * old[at], at + 1
        if left != size or (d not in dims and at != first + 1):
            return None
        found += range(first, at) if d in dims else []
    return found if at == len(old) else None


def _apart(op: ir.Operation, x: ir.Value, rows: list[int], others: list[int]) -> ir.Value:
    (result,) = op.results
    name = _JOINED[op.name]
    some = _B.reduce(name, _B.convert(x, opmath(spelling_of(x))), rows, keepdim=True)
    total = _B.reduce(name, some, sorted([*rows, *others]))
    return _B.convert(_B.reshape(total, shape_of(result)), spelling_of(result))
