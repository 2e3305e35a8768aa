"""Computes a product in the order of dims in which its result is read.

    %1 = cuesta.mm(%a, %w) : 512x64, 64x24             %t = cuesta.expand(cuesta.permute(%w)) : 2x24x64
    %2 = cuesta.reshape(%1) : 2x256x24             →   %b = cuesta.permute(cuesta.reshape(%a)) : 2x64x256
    %3 = cuesta.permute(%2) {dims = [0, 2, 1]}         %3 = cuesta.mm(%t, %b) : 2x24x256

A linear layer over tokens multiplies a transposed tensor, and its result is transposed back. Read in place, the result
has its rows across those of all that it meets: a residual, a norm, the gradients of a norm. cuBLAS takes transposed
factors as they are, and a weight that is the same in each batch. So the result is written as it is read, and no kernel
of ours transposes. A bias becomes an op of its own, which the reader computes.

Elementwise ops between the product and the permutes, such as conversions, are computed behind the permutes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker, types
from cuesta.dialects.aten import Call
from cuesta.dialects.clones import repeat_op
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, Convolution, MatMul
from cuesta.dialects.cuesta.dialect import Cuesta
from cuesta.dialects.cuesta.indexing import Index, Window
from cuesta.dialects.cuesta.shape import Cat, Permute, Reshape, Slice
from cuesta.dialects.cuesta.traced_strides import RESULT_STRIDES
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import byte_size, shape_of, spelling_of
from cuesta.passes.analysis.match import without_ones
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE
from cuesta.passes.infra.graph_rewrite import erase_dead, rewrite_ops, users
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.passes.libraries.products.cluster import PRODUCTS
from cuesta.sizes import Number, Size

_B = GraphBuilder()
_TURN = [0, 2, 1]
#: The fewest columns of the new result: with fewer, tiles of each batch's matrix would be more than half empty.
_FEWEST = 128
#: The library's fast kernels need rows that are multiples of this many bytes.
_ALIGNED = 16
#: Columns of the library's tiles, and the bytes that an H100 copies in the time of one multiplication on tensor cores.
_TILE, _BYTES_A_PRODUCT = 64, 0.0086


@register_pass("multiply-as-read")
class MultiplyAsRead(Pass):
    """Swaps the factors of products whose results are read transposed."""

    def run(self, module: ir.Module) -> None:
        rewrite_ops(module, dict.fromkeys(PRODUCTS, _turn))
        erase_dead(module)


def _turn(op: ir.Operation) -> None:
    """Replaces what permutes a product's result, and leaves the product without users."""
    if len(shape_of(op.results[0])) != 2 or MatMul.product.is_on(op) or not _adds_a_row(op):
        return
    matrix = _read_columns(op.results[0])
    views = users(matrix)
    shapes = {shape_of(view.results[0]) for view in views if Reshape.matches(view)}
    if len(shapes) != 1 or not all(Reshape.matches(view) and _is_turned(view.results[0]) for view in views):
        return
    (shape,) = shapes
    inner = shape_of(op.operands[len(op.operands) - 1])[0]
    if shape[-1] == shape_of(matrix)[1] and _pays(shape, inner, spelling_of(matrix)):
        product = _product(op, shape)
        for view in views:
            _replace(view.results[0], product)


def _adds_a_row(op: ir.Operation) -> bool:
    """Whether a product has no bias, or one that is a row and not scaled."""
    if not AddMatMul.matches(op):
        return True
    *leading, columns = shape_of(op.operands[0])
    is_plain = AddMatMul.beta.of(op) == AddMatMul.alpha.of(op) == 1
    return is_plain and all(n == 1 for n in leading) and columns == shape_of(op.results[0])[1]


def _read_columns(matrix: ir.Value) -> ir.Value:
    """The first columns of a padded matrix, where nothing reads the others; else the matrix."""
    readers = users(matrix)
    if len(readers) != 1 or not Slice.matches(readers[0]):
        return matrix
    (cut,) = readers
    is_first = not any(Slice.starts.of(cut)) and set(Slice.steps.of(cut)) == {1}
    first: ir.Value = cut.results[0]
    return first if is_first and shape_of(first)[0] == shape_of(matrix)[0] else matrix


def _is_turned(value: ir.Value) -> bool:
    """Whether every reader of a value permutes it, or computes, from nothing else of that size, what is permuted; and
    kernels of ours read that. The caller, and other products, take a permuted matrix as it is."""

    def turns(user: ir.Operation) -> bool:
        if Permute.matches(user):
            is_ours = all(Cuesta.owns(u) and u.name not in PRODUCTS for u in users(user.results[0]))
            return is_ours and bool(Permute.dims.of(user) == _TURN) and not _is_turned_back(user.results[0])
        is_alone = all(x == value or len(without_ones(x)) < 2 for x in user.operands)
        return user.name in POINTWISE and is_alone and _is_turned(user.results[0])

    readers = users(value)
    return bool(readers) and all(map(turns, readers))


def _is_turned_back(value: ir.Value) -> bool:
    """Whether [batch, columns, …], or what ops of ours make of it alone with these two dims, such as larger images, is
    read with the columns last again: permuted so, or by a convolution in channels_last."""
    made, pending = {value}, [value]
    while pending:
        x = pending.pop()
        for user in users(x):
            if Permute.matches(user) and Permute.dims.of(user)[-1] == 1:
                return True
            is_call = Convolution.matches(user) or Call.matches(user)
            if is_call and len(shape_of(x)) == 4 and _is_in_channels_last(user):
                return True
            if _keeps_columns(user, made) and user.results[0] not in made:
                made.add(user.results[0])
                pending.append(user.results[0])
    return False


def _keeps_columns(op: ir.Operation, made: Collection[ir.Value]) -> bool:
    """Whether an op makes tensors of `made`, and smaller ones, into one whose first two dims are theirs."""
    if op.name in POINTWISE:
        return all(y in made or len(without_ones(y)) < 2 for y in op.operands)
    if Cat.matches(op):
        return Cat.dim.of(op) >= 1
    if not any(kind.matches(op) for kind in (Reshape, Slice, Index, Window)):
        return False
    x = op.operands[0]
    return x in made and shape_of(op.results[0])[:2] == shape_of(x)[:2]


def _is_in_channels_last(op: ir.Operation) -> bool:
    """Whether a call's first result are images in channels_last, and so those that it reads."""
    strides = RESULT_STRIDES.find(op)
    return strides is not None and len(strides[0]) == 4 and strides[0][1] == 1


def _pays(shape: Sequence[Number], inner: Number, spelling: str) -> bool:
    """Whether a batched product that writes [batch, columns, rows] for the product's [batch, rows, columns] has aligned
    rows, and multiplies no more in tiles that are not full than a copy of the result takes. `inner` is the length of
    the sums."""
    if len(shape) != 3 or any(isinstance(n, Size) for n in (*shape, inner)):
        return False
    batch, rows, columns = (int(n) for n in shape)
    width = byte_size(spelling)
    if min(batch, columns) == 1 or rows < _FEWEST or rows * width % _ALIGNED:
        return False
    return (-rows % _TILE) * int(inner) * _BYTES_A_PRODUCT <= 2 * width * rows


def _product(op: ir.Operation, shape: Sequence[Number]) -> ir.Value:
    """The product as [batch, columns, rows], with its bias."""
    *bias, a, w = op.operands
    batch, rows, columns = shape
    inner = shape_of(a)[1]
    left = _B.expand(_B.slice(_B.permute(w, [1, 0]), 0, 0, columns), [batch, columns, inner])
    right = _B.permute(_B.reshape(a, [batch, rows, inner]), _TURN)
    kind = types.tensor([batch, columns, rows], spelling_of(op.results[0]))
    product = MatMul(left, right, kind).result
    if (precision := AnyProduct.precision.find(op)) is not None:
        AnyProduct.precision.put(product.owner, precision)
    if not bias:
        return product
    row = _B.reshape(_unpadded(bias[0], columns), [columns, 1])
    return _B.pointwise("add", product, row)


def _unpadded(bias: ir.Value, columns: Number) -> ir.Value:
    """The first elements of a row."""
    row = _B.reshape(bias, shape_of(bias)[-1:])
    padded = maker(row, Cat)
    if padded is not None and shape_of(padded.operands[0]) == (columns,):
        first: ir.Value = padded.operands[0]
        return first
    return _B.slice(row, 0, 0, columns)


def _replace(value: ir.Value, turned: ir.Value) -> None:
    """Replaces the permutes behind a value by `turned`, which is the value permuted, and ops between them by ops on
    it."""
    for user in dict.fromkeys(users(value)):
        if Permute.matches(user):
            user.results[0].replace_all_uses_with(turned)
            continue
        with ir.InsertionPoint(user), user.location:
            operands = [turned if x == value else _broadcast(x) for x in user.operands]
            again = repeat_op(user, operands, types.tensor(shape_of(turned), spelling_of(user.results[0])))
        _replace(user.results[0], again.results[0])


def _broadcast(x: ir.Value) -> ir.Value:
    """A number, or a row, that broadcasts to a tensor, for the tensor with its last two dims permuted."""
    sizes = shape_of(x)
    return _B.permute(_B.reshape(x, [*(1,) * (3 - len(sizes)), *sizes]), _TURN) if sizes else x
