"""Makes one op of a softmax and the product that multiplies it; a part of call-libraries.

    %s = cuesta.mm(%q, %k^T)                      %s = cuesta.mm(%q, %k^T) {product = "64x64x64/4/3"}
    %t = … pointwise ops on %s                    %t = … pointwise ops on %s
    %w = cuesta.softmax(%t)                →      %r, %l = cuesta.softmax_mm(%t, %v) {product = "64x64x64/4/3"}
    %r = cuesta.mm(%w, %v)
    %l = cuesta.logsumexp(%t)

On a GPU form-kernels fuses this op with the product of the scores and the pointwise ops between the two: attention of
any function of the scores. A program has a block of queries and walks along the keys; no tensor of scores is in memory.
"""

from __future__ import annotations

from collections.abc import Collection

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.contraction import MatMul, SoftmaxMatMul
from cuesta.dialects.cuesta.normalisation import LogSumExp, Softmax
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import LEAST, Tile
from cuesta.dialects.types import opmath, shape_of, spelling_of, tensor
from cuesta.passes.analysis.match import unreshaped
from cuesta.passes.graph.recognise_attention import product_of
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, replace, users
from cuesta.passes.libraries.products.computed_factors import LARGEST, multiplied, put
from cuesta.passes.libraries.products.narrow_factors import narrow_factors
from cuesta.sizes.powers import power_at_least

_B = GraphBuilder()
#: Queries and keys of a block, warps, and stages of the loop along the keys.
_QUERIES, _KEYS, _WARPS, _STAGES = 64, 64, 4, 3


def multiply_by_softmax(module: ir.Module, kinds: Collection[str]) -> None:
    """Rewrites a module's products by a softmax whose factors have one of the types `kinds`."""
    for function in functions(module):
        ops = [view.operation for view in function.regions[0].blocks[0].operations]
        for op in [op for op in ops if Softmax.matches(op)]:  # a rewrite erases the products
            _rewrite(op, kinds)
    erase_dead(module)


def _rewrite(softmax: ir.Operation, kinds: Collection[str]) -> None:
    (given,) = softmax.operands
    rank = len(shape_of(given))
    if rank < 2 or Softmax.dim.of(softmax) != rank - 1:
        return
    *batch, m, n = shape_of(_with_all_dims(softmax))
    second, first = product_of(softmax.results[0]), _product_of_scores(given)
    if first is None or second is None:
        return
    with ir.InsertionPoint(first):
        q, k = narrow_factors(first) or first.operands
    values = second.operands[1]
    depths = [n for n in (shape_of(first.operands[0])[-1], shape_of(values)[-1]) if isinstance(n, int)]
    if spelling_of(q) != spelling_of(k) or not {spelling_of(q), spelling_of(values)} <= {*kinds}:
        return
    if not (isinstance(m, int) and isinstance(n, int) and len(depths) == 2):
        return
    if min(m, n, *depths) < LEAST or max(depths) > LARGEST:
        return
    with ir.InsertionPoint(first), named("scores", first):
        tile = _tile(m, _KEYS, depths[0])
        put(first, multiplied(q, k, [*batch, m, depths[0]], [*batch, depths[0], n], tile))
    scores = _with_all_dims(softmax)  # the product's own result may have been replaced
    logsumexps = [op for op in users(softmax.operands[0]) if _is_of_rows(op) and second.is_before_in_block(op)]
    with ir.InsertionPoint(second), named("attention", second):
        kind = opmath(spelling_of(values))
        made = SoftmaxMatMul(
            scores,
            reshaped(values, [*batch, n, depths[1]]),
            str(_tile(m, depths[1], _KEYS)),
            Softmax.safe.of(softmax),
            tensor([*batch, m, depths[1]], kind),
            tensor([*batch, m], kind),
        )
        put(second, made.result)
    for op in logsumexps:
        with ir.InsertionPoint(op):
            (result,) = op.results
            replace(op, [_B.reshape(_B.convert(made.logsumexp, spelling_of(result)), shape_of(result))])


def _with_all_dims(softmax: ir.Operation) -> ir.Value:
    """The operand of a softmax before the dims in front of its rows were merged. A model merges batch and heads for a
    product of matrices; a mask that all heads share, and factors whose heads are strided, have no such dim."""
    (scores,) = softmax.operands
    source = unreshaped(scores)
    return source if shape_of(source)[-2:] == shape_of(scores)[-2:] else scores


def _is_of_rows(op: ir.Operation) -> bool:
    """Whether an op is the logsumexp of its operand's rows."""
    return LogSumExp.matches(op) and LogSumExp.dims.of(op) == [len(shape_of(op.operands[0])) - 1]


def _product_of_scores(scores: ir.Value) -> ir.Operation | None:
    """The one product that the scores are computed from by pointwise ops; None where there are more products, or none,
    or where other ops read its result too."""
    rows = shape_of(scores)[-2:]
    pending, found = [scores], set()
    while pending:
        op = maker(pending.pop())
        if op is None:
            continue
        if MatMul.matches(op):
            found.add(op)
        elif op.name in POINTWISE or Reshape.matches(op):
            pending += [x for x in op.operands if shape_of(x)[-2:] == rows]
    if len(found) != 1:
        return None
    (first,) = found
    return first if len(users(first.results[0])) == 1 else None


def _tile(rows: int, columns: int, depth: int) -> Tile:
    """The tile of one of the two products: a program has all columns of the second."""
    return Tile(min(_QUERIES, power_at_least(rows)), power_at_least(columns), power_at_least(depth), _WARPS, _STAGES)
