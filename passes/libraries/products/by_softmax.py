"""Makes one op of a softmax and the product that multiplies it; a part of call-libraries.

    %s = cuesta.mm(%q, %k^T)                      %s = cuesta.mm(%q, %k^T) {product = "128x64x64/4/3"}
    %t = … pointwise ops on %s                    %t = … pointwise ops on %s
    %w = cuesta.softmax(%t)                →      %r = cuesta.mm(%t, %v) {product = "128x64x64/4/3", softmax}
    %r = cuesta.mm(%w, %v)

On a GPU form-kernels fuses this op with the product of the scores and the pointwise ops between the two: attention of
any function of the scores. A program has a block of queries and walks along the keys; no tensor of scores is in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.contraction import MatMul
from cuesta.dialects.cuesta.normalisation import Softmax
from cuesta.dialects.cuesta.shape import Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.product import LEAST, Tile
from cuesta.dialects.types import opmath, shape_of, spelling_of, tensor
from cuesta.passes.gpu.block_sizes import power_at_least
from cuesta.passes.graph.hoist_reshapes import POINTWISE, reshaped
from cuesta.passes.graph.recognise_attention import product_of
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, named, replace, users
from cuesta.passes.libraries.products.narrow_factors import narrow_factors
from cuesta.sizes import Number
from cuesta.targets import Target

_B = GraphBuilder()
#: Element types of the factors: f32 is multiplied without tensor cores.
_TYPES = {"bf16", "f16", "f32"}
#: Those for which the kernel was measured to be faster than two library calls and a softmax, and where: on an H100 0.06
#: to 0.9 of their time. The interpreter's kernels are those of CUDA.
_MEASURED_TYPES, _MEASURED_TARGETS = {"bf16", "f16"}, {"cuda", "tt"}
#: The largest head: a program's sums and a block of keys and values fit a multiprocessor.
_LARGEST = 128
#: Queries and keys of a block, and stages of the loop along the keys.
_QUERIES, _KEYS, _STAGES = 128, 64, 3


def multiply_by_softmax(module: ir.Module, option: str, target: Target) -> None:
    """Rewrites a module's products by a softmax on a GPU, as the option `attention` says: with "auto" those of narrow
    floats, which tensor cores multiply, on the targets that they were measured on."""
    if not target.gpu or option == "library":
        return
    kinds = _TYPES if option == "kernel" else _MEASURED_TYPES if target.kind in _MEASURED_TARGETS else set()
    for function in functions(module):
        for op in [view.operation for view in function.regions[0].blocks[0].operations]:
            if Softmax.matches(op):
                _rewrite(op, kinds)
    erase_dead(module)


def _rewrite(softmax: ir.Operation, kinds: Collection[str]) -> None:
    (scores,) = softmax.operands
    *batch, m, n = shape_of(scores)
    second, first = product_of(softmax.results[0]), _product_of_scores(scores)
    if first is None or second is None or Softmax.dim.of(softmax) != len(batch) + 1 or not Softmax.safe.of(softmax):
        return
    with ir.InsertionPoint(first):
        q, k = narrow_factors(first) or first.operands
    values = second.operands[1]
    depths = [n for n in (shape_of(first.operands[0])[-1], shape_of(values)[-1]) if isinstance(n, int)]
    if spelling_of(q) != spelling_of(k) or not {spelling_of(q), spelling_of(values)} <= {*kinds}:
        return
    if not (isinstance(m, int) and isinstance(n, int) and len(depths) == 2):
        return
    if min(m, n, *depths) < LEAST or max(depths) > _LARGEST:
        return
    with ir.InsertionPoint(first), named("scores", first):
        product = _product(q, k, [*batch, m, depths[0]], [*batch, depths[0], n], _tile(m, _KEYS, depths[0]))
        _put(first, product)
    with ir.InsertionPoint(second), named("attention", second):
        product = _product(scores, values, [*batch, m, n], [*batch, n, depths[1]], _tile(m, depths[1], _KEYS))
        MatMul.softmax.mark(product.owner)
        _put(second, product)


def _put(op: ir.Operation, product: ir.Value) -> None:
    """Replaces a product by another, in the type and with the dims of the old one's result."""
    (result,) = op.results
    replace(op, [_B.reshape(_B.convert(product, spelling_of(result)), shape_of(result))])


def _product(a: ir.Value, b: ir.Value, left: Sequence[Number], right: Sequence[Number], tile: Tile) -> ir.Value:
    """The product of two factors of these sizes, a kernel with its sums in the type that the right one is summed in."""
    kind = tensor([*left[:-1], right[-1]], opmath(spelling_of(b)))
    product = MatMul(reshaped(a, left), reshaped(b, right), kind).result
    MatMul.product.put(product.owner, str(tile))
    return product


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
    queries = min(_QUERIES, power_at_least(rows))
    warps = 4 if depth + columns <= 2 * _KEYS else 8
    return Tile(queries, power_at_least(columns), power_at_least(depth), warps, _STAGES)
