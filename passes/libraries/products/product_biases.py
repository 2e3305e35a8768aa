"""Gives a product the row that is added to its result, on a GPU: cuBLAS adds it before it writes.

    %1 = cuesta.mm(%x, %w) : 512x24                %1 = cuesta.addmm(%bias, %x, %w) : 512x24
    %2 = cuesta.reshape(%1) : 2x256x24        →    %3 = cuesta.reshape(%1) : 2x256x24
    %3 = cuesta.add(%2, %bias)

torch computes a linear layer of a tensor that is not contiguous, such as a transposed one, as a product and a sum. What
reads the sum at computed positions, as an interpolation does, is no kernel that could add it. The sum is rounded once,
where torch rounds the product as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, MatMul
from cuesta.dialects.cuesta.pointwise import OPS
from cuesta.dialects.fields import float_attr
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.top_module import target_of
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import made_for_one, without_ones
from cuesta.passes.infra.graph_rewrite import rewrite_ops
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.products.routes import NARROW_FLOATS

_B = GraphBuilder()


@register_pass("product-biases")
class ProductBiases(Pass):
    """Rewrites sums of a product and a row as products with a bias."""

    def run(self, module: ir.Module) -> None:
        if target_of(module).gpu:
            rewrite_ops(module, {OPS["add"].OPERATION_NAME: _biased})


def _biased(op: ir.Operation) -> Sequence[ir.Value] | None:
    first, second = op.operands
    for value, row in ((first, second), (second, first)):
        product = _product_of(value)
        if product is None or spelling_of(value) not in NARROW_FLOATS:
            continue
        *_, columns = shape_of(product.results[0])
        is_row = shape_of(row)[-1:] == (columns,) and without_ones(row) == [columns]
        if is_row and shape_of(value)[-1] == columns and shape_of(op.results[0]) == shape_of(value):
            return [_B.reshape(_sum(product, _B.reshape(row, [columns])), shape_of(value))]
    return None


def _sum(product: ir.Operation, row: ir.Value) -> ir.Value:
    one = float_attr(1.0)
    total = AddMatMul(row, *product.operands, one, one, product.results[0].type).result
    if (precision := AnyProduct.precision.find(product)) is not None:
        AnyProduct.precision.put(total.owner, precision)
    return total


def _product_of(value: ir.Value) -> ir.Operation | None:
    """The product of two matrices for the library, without a bias, that a value is a view of; None if there is none, or
    others read it too."""
    product = made_for_one(value)
    if product is None or not MatMul.matches(product) or MatMul.product.is_on(product):
        return None
    return product if len(shape_of(product.results[0])) == 2 else None
