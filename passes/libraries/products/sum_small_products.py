"""Replaces matrix products that are too small for a library by elementwise products and sums.

    %1 = cuesta.mm(%0, %v)                           %a = cuesta.mul(%0, reshape(%v))    : 2048x512x8
      : 2048x512x8, 2048x8x1 → 2048x512x1     →      %1 = reshape(sum(%a, dims = [2]))

A library starts a block for each matrix of a batch. A small matrix that is multiplied by a vector is too little work
for a block: to weigh what 8 experts give for each of 2,048 tokens, matrices of 512x8, takes 96 µs on an H200, of which
the bytes need 6. The gradient of such a product is a product over a dim of size 1, which has no sum at all. As ops of
ours, these products join the kernels around them, and their results lie in memory as the readers want them.
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
    is_weighed = len(batch) == 1 and batch[0] >= _MANY and min(rows, columns) == 1
    if terms != 1 and (not is_weighed or rows * terms * columns > _SMALL):
        return None
    wide, result = opmath(spelling_of(a)), op.results[0]
    a, b = _B.convert(a, wide), _B.convert(b, wide)
    if terms == 1:
        return [_B.convert(_B.pointwise("mul", a, b), spelling_of(result))]
    if columns == 1:
        total = _B.reduce("sum", _B.pointwise("mul", a, _B.reshape(b, [*batch, 1, terms])), [2])
    else:
        total = _B.reduce("sum", _B.pointwise("mul", _B.reshape(a, [*batch, terms, 1]), b), [1])
    return [_B.convert(_B.reshape(total, shape_of(result)), spelling_of(result))]
