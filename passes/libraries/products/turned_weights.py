"""Finds weights that are widened after they were turned, and turns them after they are widened; a part of
call-libraries.

    %1 = cuesta.permute(%values) {dims = [1, 0]}     %1 = cuesta.convert(%values) : tensor<8x64xbf16>
    %2 = cuesta.convert(%1) : tensor<64x8xbf16>   →  %2 = cuesta.permute(%1) {dims = [1, 0]}
    %3 = cuesta.mm(%x, %2)                           %3 = cuesta.mm(%x, %2)

torchao writes `x @ values.t().to(x.dtype)`, others `F.linear(x, values.to(x.dtype))`. All that follows knows the second
form, in which a weight is computed along its rows as it is stored.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import AnyProduct, MatMul
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.infra.graph_rewrite import erase_dead, functions
from cuesta.passes.libraries.products.cluster import PRODUCTS
from cuesta.passes.libraries.products.quantised import NARROW

_B = GraphBuilder()
#: Ops that apply scales and zeros.
_APPLY = {pointwise.OPS[name].OPERATION_NAME: name for name in ("mul", "sub")}


def turn_widened(module: ir.Module) -> None:
    """Rewrites the right factors of a module's products."""
    is_changed = False
    for function in functions(module):
        for op in [view.operation for view in function.regions[0].blocks[0].operations]:
            if op.name not in PRODUCTS or AnyProduct.route.is_on(op) or MatMul.product.is_on(op):
                continue
            b = op.operands[len(op.operands) - 1]
            if len(shape_of(b)) == 2 and maker(b, Permute) is None and _is_of_turned(b):
                with ir.InsertionPoint(op), op.location:
                    op.operands[len(op.operands) - 1] = _B.permute(_turned(b), [1, 0])
                is_changed = True
    if is_changed:
        erase_dead(module)


def _is_of_turned(x: ir.Value) -> bool:
    """Whether a value is widened from narrow integers that were turned, and scaled."""
    op = maker(x)
    if op is None:
        return False
    if Permute.matches(op):
        return spelling_of(x) in NARROW and Permute.dims.of(op) == [1, 0]
    if Convert.matches(op):
        return _is_of_turned(op.operands[0])
    if op.name not in _APPLY:
        return False
    found = [_is_of_turned(y) for y in op.operands]
    return any(found) and all(known or _may_turn(y) for y, known in zip(op.operands, found, strict=True))


def _may_turn(x: ir.Value) -> bool:
    """Whether a scale or a zero is turned by a reshape: a number, or one for each column."""
    shape = shape_of(x)
    return len(shape) < 2 or (len(shape) == 2 and shape[0] == 1)


def _turned(x: ir.Value) -> ir.Value:
    """The transpose of a widened weight, or of what one is computed from."""
    op = maker(x)
    if not _is_of_turned(x) or op is None:
        return _turned_scale(x)
    if Permute.matches(op):
        turned: ir.Value = op.operands[0]
        return turned
    if Convert.matches(op):
        return _B.convert(_turned(op.operands[0]), spelling_of(x))
    return _B.pointwise(_APPLY[op.name], *(_turned(y) for y in op.operands))


def _turned_scale(x: ir.Value) -> ir.Value:
    if not shape_of(x):
        return x
    # The scale of each row, as it is stored, where a reshape or a permute of it was turned.
    source = maker(x, Permute) or maker(x, Reshape)
    n = shape_of(x)[-1]
    if source is not None and shape_of(source.operands[0]) == (n, 1):
        stored: ir.Value = source.operands[0]
        return stored
    return _B.reshape(x, [n, 1])
