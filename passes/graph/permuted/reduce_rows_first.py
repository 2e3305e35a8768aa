"""Reduces a permuted tensor as it lies in memory: whole rows first, where rows are reduced.

    %1 = cuesta.permute(%0) {dims = [0, 2, 1]}          %a = cuesta.sum(%0) {dims = [2], keepdim} : 64x196x1
      : 64x196x768 → 64x768x196                      →  %3 = cuesta.sum(%a) {dims = [0, 2]} : 196
    %2 = cuesta.reshape(%1) : 49152x196
    %3 = cuesta.sum(%2) {dims = [0]} : 196

The gradient of a bias of tokens is such a sum. The reshape, which joins reduced dims, would copy the permuted tensor.
The rows are reduced in the kernel that has them, such as that of a norm's gradients, and what is left is small. Where
the rows are kept, as in the gradient of a bias behind an attention whose sequence comes first, the order of the reduced
dims does not matter, and one reduction is left.
"""

from __future__ import annotations

from dataclasses import dataclass

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
        found: dict[ir.Operation, _Plan] = {}
        for function in functions(module):
            for view in function.regions[0].blocks[0].operations:
                if view.operation.name in _JOINED and (plan := _plan(view.operation, memory)) is not None:
                    found[view.operation] = plan
        rewrite_ops(module, dict.fromkeys(_JOINED, lambda op: [_apart(op, found[op])] if op in found else None))
        erase_dead(module)


@dataclass(frozen=True)
class _Plan:
    """How to reduce the dims `rows` of `x`, then `others`. What is left has the dims `kept`, in the result's order."""

    x: ir.Value
    rows: list[int]
    others: list[int]
    kept: list[int]


def _plan(op: ir.Operation, memory: MemoryOrder) -> _Plan | None:
    """How to reduce what an op reduces below views; None for other reductions."""
    x, dims, is_permuted = _below_views(op)
    sizes = shape_of(x)
    if x == op.operands[0] or any(isinstance(n, Size) for n in sizes):
        return None
    chosen = {d for at in Reduced.dims.of(op) for d in dims[at]}
    order = [d for d in memory.order(x) if sizes[d] != 1]
    rows: list[int] = []
    while order and order[-1] in chosen:
        rows.append(order.pop())
    is_between = bool(order) and any(d in chosen for d in order)
    if not is_between or (estimate(sizes[d] for d in rows) < _FEWEST if rows else not is_permuted):
        return None
    kept = [d for part in dims for d in part if d not in chosen]
    return _Plan(x, sorted(rows), sorted(chosen - set(rows)), kept)


def _below_views(op: ir.Operation) -> tuple[ir.Value, list[list[int]], bool]:
    """(what an op reduces, below permutes and reshapes that only join reduced dims; which of its dims each dim of the
    op's operand is; whether it is permuted). A value without such a reshape is left as it is: a permute alone is read
    in place."""
    x, reduced = op.operands[0], set(Reduced.dims.of(op))
    parts, is_permuted = [[d] for d in range(len(shape_of(x)))], False
    if maker(_narrow(x), Reshape) is None:
        return x, parts, False
    x = _narrow(x)
    while (view := maker(x)) is not None:
        below = _dims_below(view)
        if below is None:
            break
        apart = [[d for at in part for d in below[at]] for part in parts]
        if any(len(part) != 1 for at, part in enumerate(apart) if at not in reduced):
            break
        x, parts, is_permuted = view.operands[0], apart, is_permuted or Permute.matches(view)
    return x, parts, is_permuted


def _narrow(x: ir.Value) -> ir.Value:
    """What a value was converted from, if only to be summed."""
    conversion = maker(x, Convert)
    if conversion is None or opmath(spelling_of(conversion.operands[0])) != spelling_of(x):
        return x
    source: ir.Value = conversion.operands[0]
    return source


def _dims_below(view: ir.Operation) -> list[list[int]] | None:
    """The dims of a view's operand that each dim of the view is; None for a reshape that splits dims, and other ops."""
    if Permute.matches(view):
        return [[d] for d in Permute.dims.of(view)]
    if not Reshape.matches(view):
        return None
    old = shape_of(view.operands[0])
    found: list[list[int]] = []
    at = 0
    for size in shape_of(view.results[0]):
        first = at
        left: Number = 1
        while at < len(old) and (left != size or at == first):
            left, at = left * old[at], at + 1
        if left != size:
            return None
        found.append(list(range(first, at)))
    return found if at == len(old) else None


def _apart(op: ir.Operation, plan: _Plan) -> ir.Value:
    (result,) = op.results
    name, x = _JOINED[op.name], plan.x
    some = _B.reduce(name, _B.convert(x, opmath(spelling_of(x))), plan.rows, keepdim=True)
    total = _B.reduce(name, some, sorted([*plan.rows, *plan.others]))
    ordered = _B.permute(total, [sorted(plan.kept).index(d) for d in plan.kept])
    return _B.convert(_B.reshape(ordered, shape_of(result)), spelling_of(result))
