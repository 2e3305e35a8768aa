"""Makes sums of elementwise products of matrix products that are too small for a library.

    %1 = cuesta.mm(%0, %v)                           %a = cuesta.mul(%0, reshape(%v))    : 2048x512x8
      : 2048x512x8, 2048x8x1 → 2048x512x1     →      %1 = reshape(sum(%a, dims = [2]))

A library starts a block for each matrix of a batch. One that is multiplied by a vector, such as what a token's experts
give by their weights, has too little work for a block: 2,048 of 512x8 take 96 µs on an H200, 6 for the bytes. A product
over a dim of size 1, the gradient of such a one, has no sum at all. As ops of ours they join the kernels around them,
and their results lie as readers want them.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import MatMul
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass

_B = GraphBuilder()

#: The fewest matrices of a batch, each multiplied by a vector, and the most elements of one.
_MANY, _SMALL = 256, 1 << 14


@register_pass("sum-small-products")
class SumSmallProducts(Pass):
    """Replaces products over one element, and of many small matrices by vectors, on a GPU."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {MatMul.OPERATION_NAME: _product})


def _product(op: ir.Operation) -> Sequence[ir.Value] | None:
    a, b = op.operands
    (*batch, rows, terms), columns = shape_of(a), shape_of(b)[-1]
    if not all(isinstance(n, int) for n in (*batch, rows, terms, columns)) or MatMul.product.is_on(op):
        return None
    wide, result = opmath(spelling_of(a)), op.results[0]
    a, b = _B.convert(a, wide), _B.convert(b, wide)
    if terms == 1:
        return [_B.convert(_B.pointwise("mul", a, b), spelling_of(result))]
    if len(batch) != 1 or batch[0] < _MANY or min(rows, columns) != 1 or rows * terms * columns > _SMALL:
        return None
    if columns == 1:
        total = _B.reduce("sum", _B.pointwise("mul", a, _B.reshape(b, [*batch, 1, terms])), [2])
    else:
        total = _B.reduce("sum", _B.pointwise("mul", _B.reshape(a, [*batch, terms, 1]), b), [1])
    return [_B.convert(_B.reshape(total, shape_of(result)), spelling_of(result))]
