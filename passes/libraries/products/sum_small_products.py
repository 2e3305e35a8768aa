"""Replaces matrix products that are too small for a library by elementwise products and sums.

    %1 = cuesta.mm(%0, %v)                           %a = cuesta.mul(%0, reshape(%v))    : 2048x512x8
      : 2048x512x8, 2048x8x1 → 2048x512x1     →      %1 = reshape(sum(%a, dims = [2]))

A library starts a block for each matrix of a batch. A small matrix that is multiplied by a vector is too little work
for a block: to weigh what 8 experts give for each of 2,048 tokens, matrices of 512x8, takes 96 µs on an H200, of which
the bytes need 6. The gradient of such a product is a product over a dim of size 1, which has no sum at all. As ops of
ours, these products join the kernels around them, and their results lie in memory as the readers want them. A factor
that is repeated for some dims of the batch, as the weights of capsules for all samples, is read where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.contraction import MatMul, is_small_product
from cuesta.dialects.cuesta.shape import Expand, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import Number

_B = GraphBuilder()


@register_pass("sum-small-products")
class SumSmallProducts(Pass):
    """Replaces products over one element, and of many small matrices by vectors, on a GPU."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, {MatMul.OPERATION_NAME: _product})


def _product(op: ir.Operation) -> Sequence[ir.Value] | None:
    a, b = op.operands
    (*batch, rows, terms), columns = shape_of(a), shape_of(b)[-1]
    sizes = [n for n in (*batch, rows, terms, columns) if isinstance(n, int)]
    if len(sizes) < len(batch) + 3 or MatMul.product.is_on(op):
        return None
    if not is_small_product(sizes[0] if len(batch) == 1 else 0, *sizes[-3:]):
        return None
    wide, result = opmath(spelling_of(a)), op.results[0]
    batch = _batch_of(a) or _batch_of(b) or batch
    a, b = (_B.convert(_in_batch(x, batch), wide) for x in (a, b))
    if terms == 1:
        product = _B.pointwise("mul", a, b)
    elif columns == 1:
        product = _B.reduce("sum", _B.pointwise("mul", a, _B.reshape(b, [*batch, 1, terms])), [len(batch) + 1])
    else:
        product = _B.reduce("sum", _B.pointwise("mul", _B.reshape(a, [*batch, terms, 1]), b), [len(batch)])
    narrow = _B.convert(_B.reshape(product, [*batch, rows, columns]), spelling_of(result))
    return [_B.reshape(narrow, shape_of(result))]


def _batch_of(x: ir.Value) -> list[Number] | None:
    """The dims of a batch that were merged, where a factor is repeated along some of them: the ops read it as it was
    before, so that it is not written once for each matrix. (Not of a factor that is transposed: a kernel that reads it
    column by column stays apart from its readers.)"""
    source = _unmerged(x)
    return list(shape_of(source)[:-2]) if source is not None and maker(source, Expand) is not None else None


def _unmerged(x: ir.Value) -> ir.Value | None:
    """What a factor was before dims of its batch were merged."""
    merged = maker(x, Reshape)
    if merged is None:
        return None
    (source,) = merged.operands
    return source if len(shape_of(source)) > 3 and shape_of(source)[-2:] == shape_of(x)[1:] else None


def _in_batch(x: ir.Value, batch: Sequence[Number]) -> ir.Value:
    """A factor whose batch has these dims."""
    source = _unmerged(x)
    if source is not None and list(shape_of(source)[:-2]) == list(batch):
        return source
    return _B.reshape(x, [*batch, *shape_of(x)[-2:]])
