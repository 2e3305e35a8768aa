"""Adds up products of pairs in two sums, one of the first values of all pairs and one of the second.

    %w = arith.select %even, %a, %b : tensor<64x16x2xf32>       %x0, %x1 = tt.split(%x)
    %p = arith.mulf %x, %w                                      %p0 = arith.mulf %x0, %a : tensor<64x16xf32>
    %r = tt.reshape(%p) : tensor<64x32xf32>                →    %p1 = arith.mulf %x1, %b
    %0 = tt.reduce(%r) {axis = 1} addf                          %0 = tt.reduce(%p0) {axis = 1} addf
                                                                         + tt.reduce(%p1) {axis = 1} addf

Two values in a byte are such pairs: its lower and upper halves are blocks of their own, taken by turns in the row that
the vector x is multiplied by. x is read as it lies, and its small block is split; the large one of the weight is never
made, and stays laid out among the threads as its bytes are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from cuesta._mlir import arith, ir
from cuesta.dialects import maker, ops_named, tt
from cuesta.dialects.clones import clone_op
from cuesta.dialects.kernel_module import kernel_modules
from cuesta.dialects.tt.ops import Broadcast, ExpandDims, MakeRange, Reduce, Reshape
from cuesta.dialects.tt.repeated import unrepeated
from cuesta.dialects.upstream_fields import PREDICATE, splat_of
from cuesta.passes.infra.registry import Pass, register_pass

#: Ops that leave each element as it is, or repeat it.
_SAME = {op.OPERATION_NAME for op in (Broadcast, ExpandDims, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)}
_COMPUTED: dict[str, Callable[[int, int], int]] = {
    arith.AddIOp.OPERATION_NAME: operator.add,
    arith.MulIOp.OPERATION_NAME: operator.mul,
}
_COMPARED: dict[int, Callable[[int, int], bool]] = {
    int(arith.CmpIPredicate.eq): operator.eq,
    int(arith.CmpIPredicate.ne): operator.ne,
    int(arith.CmpIPredicate.slt): operator.lt,
    int(arith.CmpIPredicate.sgt): operator.gt,
}


@register_pass("sum-halves")
class SumHalves(Pass):
    """Adds up products of pairs in two sums."""

    def run(self, module: ir.Module) -> None:
        with module.context, ir.Location.unknown():
            for nested in kernel_modules(module):
                for op in ops_named(nested.operation, [Reduce.OPERATION_NAME]):
                    _halve(op)


def _halve(op: ir.Operation) -> None:
    """Replaces a sum of such products, or several of one shape that are added up together, by two."""
    body = [view.operation for view in op.regions[0].blocks[0].operations][:-1]
    factors = [found for block in op.operands if (found := _factors(block, Reduce.axis.of(op))) is not None]
    if len(factors) < len(op.operands) or any(inner.name != arith.AddFOp.OPERATION_NAME for inner in body):
        return
    with ir.InsertionPoint(op), op.location:
        products = [_multiplied(x, halves) for x, halves in factors]
        sums = []
        for own in zip(*products, strict=True):
            mapping = dict(zip(op.operands, own, strict=True))
            sums.append(clone_op(op, mapping).results)
        for result, a, b in zip(op.results, *sums, strict=True):
            result.replace_all_uses_with(arith.addf(a, b))
    op.erase()


def _factors(block: ir.Value, axis: int) -> tuple[ir.Value, list[ir.Value]] | None:
    """The factors of a product of pairs that are side by side along `axis` of a block: the vector's block, and the two
    blocks that the other factor takes elements from by turns. None if the block is no such product."""
    reshaped = maker(block, Reshape)
    product = None if reshaped is None else maker(reshaped.operands[0], arith.MulFOp)
    if product is None:
        return None
    *shape, pair = tt.shape_of(product.results[0])
    if pair != 2 or axis != len(shape) - 1 or tt.shape_of(block) != (*shape[:-1], 2 * shape[-1]):
        return None
    for x, weight in (product.operands, [*product.operands][::-1]):
        source, halves = unrepeated(x), _halves(weight)
        if halves is not None and tt.shape_of(source)[-1:] == (2,):
            return source, halves
    return None


def _multiplied(x: ir.Value, halves: list[ir.Value]) -> list[ir.Value]:
    """The products of the first values of all pairs, and of the second ones."""
    shape = tt.shape_of(halves[0])[:-1]
    return [
        arith.mulf(tt.broadcast(own, shape), tt.reshape(half, shape))
        for own, half in zip(tt.split(x), halves, strict=True)
    ]


def _halves(x: ir.Value) -> list[ir.Value] | None:
    """The two blocks of one column that elements are taken from by turns; None if x is not made so."""
    op = maker(x, arith.SelectOp)
    if op is None:
        return None
    mask, *blocks = op.operands
    column = (*tt.shape_of(x)[:-1], 1)
    sources = [unrepeated(block) for block in blocks]
    chosen = [_at(mask, place) for place in range(2)]
    if chosen not in ([1, 0], [0, 1]) or any(tt.shape_of(source) != column for source in sources):
        return None
    return sources if chosen[0] else sources[::-1]


def _at(x: ir.Value, place: int) -> int | None:
    """The integer that a block has at a place along its last dim, wherever it is along the others; None if it is not
    known."""
    op = maker(x)
    if op is None:
        return None
    if op.name == arith.ConstantOp.OPERATION_NAME:
        number = splat_of(x)
        return None if number is None else int(number)
    if MakeRange.matches(op):
        return place + MakeRange.start.of(op) if tt.shape_of(x) == (2,) else None
    known = [at for operand in op.operands if (at := _at(operand, place)) is not None]
    if len(known) < len(op.operands):
        return None
    if op.name in _SAME:
        return known[0]
    if op.name == arith.CmpIOp.OPERATION_NAME:
        compare = _COMPARED.get(PREDICATE.of(op))
        return None if compare is None else int(compare(*known))
    compute = _COMPUTED.get(op.name)
    return None if compute is None else compute(*known)
