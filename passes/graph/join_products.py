"""Joins a sum of matrix products into one product with a longer K.

    %0 = cuesta.mm(%a, %b) : 2048x8, 8x512            %0 = cuesta.cat(%a, %c) {dim = 1} : 2048x16
    %1 = cuesta.mm(%c, %d) : 2048x8, 8x512        →   %1 = cuesta.cat(%b, %d) {dim = 0} : 16x512
    %2 = cuesta.add(%0, %1)                           %2 = cuesta.mm(%0, %1)

The gradient of a weight that a recurrent network uses in every step is such a sum. Each step's product is as large as
the weight, and is written and read again to be added up, after only a few multiplications per element. In the joined
product the sums stay in registers, and only the factors are copied. So products are joined only where their factors are
smaller than their results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from cuesta._mlir import ir
from cuesta.dialects import maker
from cuesta.dialects.cuesta import pointwise
from cuesta.dialects.cuesta.contraction import MatMul
from cuesta.dialects.cuesta.shape import Permute
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.passes.analysis.match import only_user
from cuesta.passes.infra.graph_rewrite import erase_dead, functions, replace
from cuesta.passes.infra.registry import Pass, register_pass
from cuesta.sizes import estimate

_B = GraphBuilder()
_ADD = pointwise.OPS["add"]


@register_pass("join-products")
class JoinProducts(Pass):
    """Joins sums of matrix products into one product of concatenated factors."""

    def run(self, module: ir.Module) -> None:
        with module.context:
            for function in functions(module):
                for view in list(function.regions[0].blocks[0].operations):
                    op = view.operation
                    if _ADD.matches(op) and _is_plain(op) and not _is_term(op):
                        _join(op)
        erase_dead(module)


def _join(root: ir.Operation) -> None:
    """Joins the products of a sum that are alike, where that is worth it."""
    terms = _terms(root)
    alike = defaultdict(list)
    for term in terms:
        if (product := maker(term, MatMul)) is not None and only_user(term) is not None:
            alike[_kind(product)].append(term)
    groups = [group for group in alike.values() if _is_worth_it(group)]
    if not groups:
        return
    joined = {term for group in groups for term in group}
    with ir.InsertionPoint(root), root.location:
        total, *others = [*map(_product_of, groups), *(term for term in terms if term not in joined)]
        for term in others:
            total = _B.pointwise("add", total, term)
    replace(root, [total])


def _terms(root: ir.Operation) -> list[ir.Value]:
    """The terms of a sum of sums, in order."""
    found: list[ir.Value] = []
    pending = list(root.operands)[::-1]
    while pending:
        value = pending.pop()
        inner = maker(value, _ADD)
        if inner is not None and _is_plain(inner) and _is_term(inner):
            pending += list(inner.operands)[::-1]
        else:
            found.append(value)
    return found


def _is_plain(op: ir.Operation) -> bool:
    """Whether an op broadcasts nothing."""
    return all(x.type == op.results[0].type for x in op.operands)


def _is_term(op: ir.Operation) -> bool:
    """Whether the only user of a sum is another sum."""
    user = only_user(op.results[0])
    return user is not None and _ADD.matches(user) and _is_plain(user)


def _kind(product: ir.Operation) -> tuple[object, ...]:
    """The key that products to be joined have in common. Their sizes but for K are those of the sum."""
    return MatMul.precision.find(product), len(shape_of(product.results[0])), spelling_of(product.operands[0])


def _is_worth_it(products: Sequence[ir.Value]) -> bool:
    """Whether copies of the factors have fewer elements than the results that are no longer written."""
    factors = sum(estimate(shape_of(x)) for product in products for x in product.owner.operands)
    return factors < (len(products) - 1) * estimate(shape_of(products[0])) and len(shape_of(products[0])) == 2


def _product_of(products: Sequence[ir.Value]) -> ir.Value:
    """The sum of `products`, as one product."""
    a = _cat([product.owner.operands[0] for product in products], 1)
    b = _cat([product.owner.operands[1] for product in products], 0)
    joined = MatMul(a, b, products[0].type)
    precision = MatMul.precision.find(products[0].owner)
    if precision is not None:
        MatMul.precision.put(joined, precision)
    return joined.result


def _cat(values: Sequence[ir.Value], dim: int) -> ir.Value:
    """Concatenates operands. If all of them are transposes, concatenates their sources and transposes once."""
    permutes = [maker(value, Permute) for value in values]
    if not all(op is not None and Permute.dims.of(op) == [1, 0] for op in permutes):
        return _B.cat(values, dim)
    return _B.permute(_B.cat([op.operands[0] for op in permutes if op is not None], 1 - dim), [1, 0])
