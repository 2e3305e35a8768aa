"""Rewrites a matrix product whose right factor is packed in panels already, as `freezing` packs weights.

    %1 = cuesta.permute(%w) {dims = [1, 0, 2]}        %1 = cuesta.mm(expand %x, %w) {product = …} : tensor<16x96x48xf32>
    %2 = cuesta.reshape(%1) : tensor<768x768xf32> →   %2 = cuesta.permute(%1) {dims = [1, 0, 2]} : tensor<96x16x48xf32>
    %3 = cuesta.mm(%x, %2) : tensor<96x768xf32>       %3 = cuesta.add(%2, reshape %bias)
    %4 = cuesta.add(%3, %bias)                        %4 = cuesta.reshape(%3) : tensor<96x768xf32>

%w is tensor<16x768x48xf32>: panels, rows, columns. The new product is a batch, one product per panel. The ops after it
keep panels and columns as two dims, too: otherwise a reshape would stand between them and the product.
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.contraction import MatMul
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of, static_shape, tensor
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped_operand
from cuesta.passes.infra.graph_rewrite import users

_B = GraphBuilder()


def packed_panels(b: ir.Value) -> ir.Value | None:
    """The panels [P, K, C] from which a right factor [K, P * C] is put together; None for another factor."""
    reshape = maker(b, Reshape)
    permute = maker(reshape.operands[0], Permute) if reshape is not None else None
    if permute is None or Permute.dims.of(permute) != [1, 0, 2]:
        return None
    panels: ir.Value = permute.operands[0]
    return panels if shape_of(b) == (shape_of(panels)[1], shape_of(panels)[0] * shape_of(panels)[2]) else None


def apart(x: ir.Value, product: ir.Value) -> ir.Value:
    """x, which broadcasts to [M, N], reshaped so that it broadcasts to `product` [M, P, C]."""
    m, count, columns = shape_of(product)
    sizes = reshaped_operand(shape_of(x), [m, count * columns], [m, count, columns])
    assert sizes is not None  # x has all of N there, or a 1
    return _B.reshape(x, sizes)


def multiply_panels(a: ir.Value, panels: ir.Value, tile: str) -> ir.Value:
    """a @ b as [M, P, C], where b is the matrix that is packed as `panels` [P, K, C]."""
    count, k, columns = static_shape(panels)
    m = shape_of(a)[0]
    result = tensor([count, m, columns], spelling_of(a))
    product = MatMul(_B.expand(_B.reshape(a, [1, m, k]), [count, m, k]), panels, result).result
    MatMul.product.put(product.owner, tile)
    MatMul.packed.mark(product.owner)
    return _B.permute(product, [1, 0, 2])


def keep_panels_apart(product: ir.Operation) -> None:
    """Rewrites pointwise ops that read a product of `multiply_panels` as [M, P * C] to read it as [M, P, C]."""
    pending = [user.results[0] for user in users(product.results[0])]
    while pending:
        own = pending.pop()
        aliases = [op.results[0] for op in users(own) if Reshape.matches(op)]
        pending += [op.results[0] for op in users(own) if op.name in POINTWISE]
        for alias in aliases:
            for user in dict.fromkeys(users(alias)):  # once, even if it reads the alias twice, as it is erased
                if Reshape.matches(user):
                    aliases.append(user.results[0])
                elif user.name in POINTWISE and (new := _on_shape(user, alias, own)) is not None:
                    pending.append(new)


def _on_shape(op: ir.Operation, alias: ir.Value, own: ir.Value) -> ir.Value | None:
    """Rebuilds a pointwise op that reads `alias`, a reshape of `own`, in `own`'s shape; None if it does not fit."""
    old, shape = shape_of(op.results[0]), shape_of(own)
    if shape_of(alias) != old:
        return None
    sizes = [reshaped_operand(shape_of(x), old, shape) if shape_of(x) else [] for x in op.operands]
    if any(s is None for s in sizes):
        return None
    with ir.InsertionPoint(op), op.location:
        operands = [
            own if x == alias else _B.reshape(x, s) if s else x for x, s in zip(op.operands, sizes, strict=True)
        ]
        kind = tensor(shape, spelling_of(op.results[0]))
        new = repeat_op(op, operands, kind)
        back = _B.reshape(new.results[0], old)
    op.results[0].replace_all_uses_with(back)
    op.erase()
    return new.results[0]
