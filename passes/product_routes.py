"""The ways to compute a small or narrow matrix product, of which call-libraries takes one.

    library   %2 = aten.call(%a, %b) {overload = "aten.mm.default"}
    columns   %2 = cuesta.sum(%a[M, K, 1] * %b[1, K, N]) {dims = [1]}       a kernel that walks along b's rows
    rows      %2 = cuesta.sum(%a[M, 1, K] * %bT[1, N, K]) {dims = [2]}      a kernel that walks along K

A library is made for large products. It loses on thousands of 3x3 ones, and on bf16 beside a vector: a kernel may be
20 times as fast, or as slow, and no rule of thumb tells which. So the library is taken unless the op says otherwise
(attribute `route`), or `max_autotune` measured otherwise.
"""

from __future__ import annotations

import math

from cuesta._mlir import ir
from cuesta.choices import Question, choose
from cuesta.dialects.graph_builder import GraphBuilder
from cuesta.dialects.types import opmath, shape_of, spelling_of
from cuesta.passes.graph_rewrite import functions
from cuesta.sizes import Size

_B = GraphBuilder()
LIBRARY, COLUMNS, ROWS = "library", "columns", "rows"

#: Attribute of a product: its way.
ROUTE = "route"
#: A kernel has a chance where a matrix has a side of at most so many elements,
_NARROW = 16
#: where a sum in order is as exact as a library's in blocks,
_LONGEST_SUM = 4096
#: and where measuring takes milliseconds: products of elements.
_MOST_WORK = 1 << 26
_FLOATS = ("f32", "f64", "bf16", "f16")


def mark_routes(module: ir.Module) -> None:
    """Marks the products of a module that are to become kernels. No op is built meanwhile: a candidate is a module."""
    for function in functions(module):
        for view in function.regions[0].blocks[0].operations:
            op = view.operation
            if op.name in ("cuesta.mm", "cuesta.addmm") and ROUTE not in op.attributes:
                op.attributes[ROUTE] = ir.StringAttr.get(_route(op))


def _route(op: ir.Operation) -> str:
    sizes = _sizes(op)
    if sizes is None or not _may_be_a_kernel(sizes) or spelling_of(op.results[0]) not in _FLOATS:
        return LIBRARY
    # One column has no rows of b to walk along.
    ways = (LIBRARY, ROWS) if sizes[-1] == 1 else (LIBRARY, COLUMNS, ROWS)
    about = f"{op.name.removeprefix('cuesta.')} {'x'.join(map(str, sizes))} {spelling_of(op.results[0])}"
    types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
    attributes = sorted(f"{name} = {attribute}" for name, attribute in op.attributes.items())
    return choose(Question("product", about, f"{op.name} {types} {attributes}", ways), op)


def _sizes(op: ir.Operation) -> list[int] | None:
    """[batch,] M, K, N where they are numbers."""
    a, b = (shape_of(x) for x in list(op.operands)[-2:])
    sizes = [*a, b[-1]]
    return None if any(isinstance(n, Size) for n in sizes) else [n for n in sizes if isinstance(n, int)]


def _may_be_a_kernel(sizes: list[int]) -> bool:
    *_, m, k, n = sizes
    return min(m, k, n) <= _NARROW and k <= _LONGEST_SUM and 0 < math.prod(sizes) <= _MOST_WORK


def as_kernel(op: ir.Operation) -> list[ir.Value]:
    """A product that is marked to become a kernel as multiplications and a sum, in f32 where it is narrower."""
    result = spelling_of(op.results[0])
    *bias, a, b = (_B.convert(v, opmath(spelling_of(v))) for v in op.operands)
    *batch, m, k, n = [*shape_of(a), shape_of(b)[-1]]
    if op.attributes[ROUTE].value == COLUMNS:
        left, right = _B.reshape(a, [*batch, m, k, 1]), _B.reshape(b, [*batch, 1, k, n])
        dim = len(batch) + 1
    else:
        across = [*range(len(batch)), len(batch) + 1, len(batch)]
        left, right = _B.reshape(a, [*batch, m, 1, k]), _B.reshape(_B.permute(b, across), [*batch, 1, n, k])
        dim = len(batch) + 2
    product = _B.reduce("sum", _B.pointwise("mul", left, right), [dim])
    if bias:
        product = _scaled(product, op.attributes["alpha"].value)
        if op.attributes["beta"].value != 0:  # as in BLAS: what is not counted may be NaN
            product = _B.pointwise("add", product, _scaled(bias[0], op.attributes["beta"].value))
    return [_B.convert(product, result)]


def _scaled(x: ir.Value, factor: float) -> ir.Value:
    return x if factor == 1 else _B.with_number("mul", x, factor)
