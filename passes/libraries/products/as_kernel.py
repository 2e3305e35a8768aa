"""Builds the ops of a product that becomes a kernel of ours, as its route says (routes.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cuesta._mlir import func, ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta.contraction import AddMatMul, AnyProduct, MatMul
from cuesta.dialects.cuesta.pointwise import Convert
from cuesta.dialects.cuesta.shape import Permute, Reshape
from cuesta.dialects.cuesta.views import VIEWS
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of, tensor
from cuesta.passes.analysis.runs import dims_between, ends
from cuesta.passes.graph.reshapes.hoist_reshapes import POINTWISE, reshaped
from cuesta.passes.infra.graph_rewrite import users
from cuesta.passes.libraries.products.packed_weights import apart, multiply_panels, packed_panels
from cuesta.passes.libraries.products.quantised import quantised_factor
from cuesta.passes.libraries.products.routes import COLUMNS, NARROW_FLOATS, PANELS, ROWS, TENSOR_CORES
from cuesta.passes.libraries.products.tiles import Plan
from cuesta.sizes import Number, hint
from cuesta.targets import Target

_B = GraphBuilder()
#: Readers of a product that compute nothing.
_NO_WORK = VIEWS | {func.ReturnOp.OPERATION_NAME}


def as_kernel(op: ir.Operation, target: Target) -> list[ir.Value]:
    """Builds the ops of a product that is marked to become a kernel. Sums of narrower floats are in f32."""
    route, result = AnyProduct.route.of(op), spelling_of(op.results[0])
    *bias, a, b = op.operands
    panels = packed_panels(b) if route.startswith(PANELS) else None
    if panels is not None:
        product = multiply_panels(a, panels, route.removeprefix(f"{PANELS} "))
        bias = [apart(x, product) for x in bias]
    elif route.startswith((TENSOR_CORES, PANELS)):
        multiply = _in_panels if route.startswith(PANELS) else _on_tensor_cores
        rank = len(shape_of(b))
        dims = _first_dims(op, [a, *bias], batch=route.startswith(PANELS))
        bias = [_split(x, dims) if len(shape_of(x)) == rank else x for x in bias]
        product = multiply(op, _split(a, dims), b if rank == 2 else _split(b, dims))
    else:
        dims = _last_dims(op) if route == ROWS else [shape_of(b)[-1]]
        bias = [reshaped(x, [*shape_of(x)[:-1], *dims]) if len(dims) > 1 else x for x in bias]
        few = shape_of(a)[:-1] == (1,) or (not target.gpu and len(shape_of(a)) == 2)
        is_few = route == ROWS and few and result in ("f32", *NARROW_FLOATS)
        quantised = quantised_factor(b) if is_few else None
        if quantised is not None and target.gpu and quantised.has_short_groups and result in NARROW_FLOATS:
            product = quantised.times_by_groups(a, dims)
        elif quantised is not None and quantised.fits(shape_of(a)[0]):
            product = quantised.times(a, dims, result in NARROW_FLOATS)
        else:
            product = _as_sum(route, a, b, dims)
    if bias:
        product = _scaled(product, AddMatMul.alpha.of(op))
        if AddMatMul.beta.of(op) != 0:  # as in BLAS: with beta = 0 the bias may be NaN
            wide = _B.convert(bias[0], opmath(spelling_of(bias[0])))
            product = _B.pointwise("add", product, _scaled(wide, AddMatMul.beta.of(op)))
    return [_B.reshape(_B.convert(product, result), shape_of(op.results[0]))]


def _first_dims(op: ir.Operation, operands: Sequence[ir.Value], batch: bool) -> list[Number]:
    """The dims into which all readers of the product split M (with `batch`, the batch of a batched product), where they
    agree: built with these dims, no reshape stands between the product and its readers. Else M, or the batch."""
    first, *rest = shape_of(op.results[0])
    readers = users(op.results[0])
    shapes = {shape_of(r.results[0]) if Reshape.matches(r) else () for r in readers}
    rank = len(rest) + 1
    plain = (rank == 2 or batch) and all(shape_of(x)[0] in (first, 1) for x in operands if len(shape_of(x)) == rank)
    if plain and len(shapes) == 1:
        (shape,) = shapes
        # A dim of 1 parts nothing: fusion sees through the reshape.
        splits = sum(n != 1 for n in shape[: 1 - rank]) > 1
        if splits and len(shape) > rank and list(shape[1 - rank :]) == rest:
            # The operands of a batch are split as well, where their batch was merged from several dims.
            return list(shape[: 1 - rank]) if rank > 2 or any(map(_is_computed_with, readers)) else [first]
    return [first]


def _is_computed_with(view: ir.Operation) -> bool:
    """Whether an op other than a view or a return reads the result of `view`, directly or through conversions."""
    return any(
        _is_computed_with(user) if Convert.matches(user) else user.name not in _NO_WORK
        for user in users(view.results[0])
    )


def _split(x: ir.Value, dims: Sequence[Number]) -> ir.Value:
    """x, an operand or a bias, with its first dim split into `dims`."""
    first, *rest = shape_of(x)
    return x if len(dims) == 1 else reshaped(x, [*(dims if first != 1 else [1] * len(dims)), *rest])


def _last_dims(op: ir.Operation) -> list[Number]:
    """The dims into which all readers of a product of one row split N, where they agree, else N: the heads of an
    attention. Built with these dims, no reshape stands between the product and its readers."""
    *rows, n = shape_of(op.results[0])
    shapes = {shape_of(r.results[0]) if Reshape.matches(r) else () for r in users(op.results[0])}
    if rows != [1] or len(shapes) != 1:
        return [n]
    return [size for size in shapes.pop() if size != 1] or [n]


def _as_sum(route: str, a: ir.Value, b: ir.Value, columns: Sequence[Number]) -> ir.Value:
    """The product as a multiplication and a sum, with N split into `columns`."""
    *batch, m, k, n = [*shape_of(a), shape_of(b)[-1]]
    if route == COLUMNS:
        left, right = _B.reshape(a, [*batch, m, k, 1]), _B.reshape(b, [*batch, 1, k, n])
        summed = [len(batch) + 1]
    else:
        parts = _dims_of_k(b)
        across = [*range(len(batch)), len(batch) + 1, len(batch)]
        left = reshaped(a, [*batch, m, *(1 for _ in columns), *parts])
        right = reshaped(_B.permute(b, across), [*batch, 1, *columns, *parts])
        summed = [len(batch) + 1 + len(columns) + i for i in range(len(parts))]
    # Converted behind the views: they fold into the views of the caller's, and fusion sees the matrix in memory order.
    left, right = (_B.convert(x, opmath(spelling_of(x))) for x in (left, right))
    return _B.reduce("sum", _B.pointwise("mul", left, right), summed)


def _dims_of_k(b: ir.Value) -> list[Number]:
    """The dims into which K is split where the right factor is computed, such as the groups of a quantised weight, and
    the pair of values in a byte; else K. A sum over these dims needs no reshape between the product and what computes
    the factor."""
    k = shape_of(b)[-2]
    turned = maker(b, Permute)
    if turned is None or len(shape_of(b)) > 2 or not isinstance(k, int):
        return [k]
    found, pending = {1, k}, [turned.operands[0]]
    while pending:
        op = maker(pending.pop())
        if op is None:
            continue
        if Reshape.matches(op) and not isinstance(op.operands[0].owner, ir.Block):
            first, *rest = shape_of(op.operands[0])
            if first != shape_of(b)[-1] or not all(isinstance(n, int) for n in rest):
                continue
            found |= ends([n for n in rest if isinstance(n, int)])
        if op.name in POINTWISE or Reshape.matches(op):
            # What is the same for the whole row, or for a group of it, is not split.
            pending += [x for x in op.operands if math.prod(map(hint, shape_of(x)[1:])) == k]
    return [*(dims_between(found) or [max(found)])]


def _in_panels(op: ir.Operation, a: ir.Value, b: ir.Value) -> ir.Value:
    """A product that stays one op, with its tile as an attribute."""
    product = MatMul(a, b, tensor([*shape_of(a)[:-1], shape_of(b)[-1]], opmath(spelling_of(a)))).result
    MatMul.product.put(product.owner, AnyProduct.route.of(op).removeprefix(f"{PANELS} "))
    return product


def _on_tensor_cores(op: ir.Operation, a: ir.Value, b: ir.Value) -> ir.Value:
    """A product that keeps its narrow operands. If K is split, the parts are a batch, whose results are added up, with
    the product of what is left behind them."""
    plan = Plan.parse(AnyProduct.route.of(op).removeprefix(f"{TENSOR_CORES} "))
    *rows, k = shape_of(a)
    n = shape_of(b)[-1]
    if plan.parts == 1:
        return _multiplied(op, a, b, plan)
    whole, a = plan.whole(hint(k)), _B.reshape(a, [math.prod(rows), k])
    parts = _in_parts(_terms(a, 1, 0, whole), 1, plan.parts), _in_parts(_terms(b, 0, 0, whole), 0, plan.parts)
    total = _B.reduce("sum", _multiplied(op, *parts, plan), [0])
    if whole < k:
        left = _multiplied(op, _terms(a, 1, whole, k - whole), _terms(b, 0, whole, k - whole), plan)
        total = _B.pointwise("add", total, left)
    return _B.reshape(total, [*rows, n])


def _multiplied(op: ir.Operation, a: ir.Value, b: ir.Value, plan: Plan) -> ir.Value:
    """A product of a and b with the plan's tile and the precision of `op`."""
    product = MatMul(a, b, tensor([*shape_of(a)[:-1], shape_of(b)[-1]], opmath(spelling_of(a)))).result
    MatMul.product.put(product.owner, str(plan.tile))
    if (precision := AnyProduct.precision.find(op)) is not None:
        AnyProduct.precision.put(product.owner, precision)
    return product


def _terms(x: ir.Value, dim: int, start: Number, count: Number) -> ir.Value:
    """Some of the terms of a sum: those of the matrix x along its dim of K. Of a transposed one, what it transposes is
    cut (see `_in_parts`)."""
    if count == shape_of(x)[dim]:
        return x
    turned = maker(x, Permute)
    if turned is None:
        return _B.slice(x, dim, start, count)
    return _B.permute(_B.slice(turned.operands[0], 1 - dim, start, count), [1, 0])


def _in_parts(x: ir.Value, dim: int, parts: int) -> ir.Value:
    """The matrix x, cut along its dim of K: a batch of `parts` matrices. Of a transposed one, such as a weight [N, K]
    or a gradient, what it transposes is cut: that reshape moves up past what computes the matrix, such as a conversion,
    and so leaves that to the product's kernel."""
    turned = maker(x, Permute)
    own, at = (x, dim) if turned is None else (turned.operands[0], 1 - dim)
    sizes = {"parts": parts, "k": shape_of(own)[at] // parts, "rest": shape_of(own)[1 - at]}
    now = ["parts", "k", "rest"] if at == 0 else ["rest", "parts", "k"]
    wanted = ["parts", "k", "rest"] if dim == 0 else ["parts", "rest", "k"]
    return _B.permute(_B.reshape(own, [sizes[name] for name in now]), [now.index(name) for name in wanted])


def _scaled(x: ir.Value, factor: float) -> ir.Value:
    return x if factor == 1 else _B.with_number("mul", x, factor)
