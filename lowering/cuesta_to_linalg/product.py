"""Lowers a matrix product that becomes a kernel of cuesta's to one generic, so that fusion sees it whole.

%2 = cuesta.mm(%a, %b)   →   %e = linalg.fill 0
                             %2 = linalg.generic {parallel, reduction, parallel} ins(%a, %b) outs(%e)
                                    { addf %out, mulf (extf %a), (extf %b) }
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AnyProduct, MatMul
from cuesta.dialects.product import PRECISION, ROLES, SOFTMAX, TILE
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.types import element, shape_of, spelling_of
from cuesta.errors import Unsupported
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import hint


@lowers(MatMul)
def lower_product(b: LinalgBuilder, op: ir.Operation) -> None:
    """Lowers a product that has a tile. Raises Unsupported for a product that no kernel was chosen for."""
    if (tile := MatMul.product.find(op)) is None:
        raise Unsupported(f"neither a library nor a kernel was chosen for a matrix product, at {op.location}")
    left, right = op.operands
    sizes = [*shape_of(left), shape_of(right)[-1]]
    at_m, at_k, at_n = range(len(sizes) - 3, len(sizes))
    if len(shape_of(right)) == 2:  # if several dims are rows, blocks are along the longest
        at_m = max(range(at_k), key=lambda d: hint(sizes[d]))
    if 1 in (sizes[at_m], sizes[at_k], sizes[at_n]):
        raise Unsupported(f"a kernel of a matrix product with a side of size 1, at {op.location}")
    loops = [d for d, size in enumerate(sizes) if size != 1]
    batch = range(len(shape_of(right)) - 2)
    accesses = [
        _access(b, left, [*range(at_k), at_k], loops),
        _access(b, right, [*batch, at_k, at_n], loops),
    ]
    wide = element(spelling_of(op.results[0]))

    def step(s: Scalar, total: Value, x: Value, y: Value) -> Value:
        return s.add(total, s.mul(s.convert(x, wide), s.convert(y, wide)))

    total = b.generic(
        accesses,
        [sizes[d] for d in loops],
        spelling_of(op.results[0]),
        step,
        reduced=[loops.index(at_k)],
        identity=lambda kind: 0,
    )
    ROLES.put(total.owner, [loops.index(d) for d in (at_m, at_n, at_k)])
    TILE.put(total.owner, tile)
    if (precision := AnyProduct.precision.find(op)) is not None:
        PRECISION.put(total.owner, precision)
    if MatMul.softmax.is_on(op):
        SOFTMAX.mark(total.owner)
    b.squeezed[op.results[0]] = total


def _access(b: LinalgBuilder, operand: Value, dims: list[int], loops: list[int]) -> Access:
    """The access of `operand`, whose dim i is loop `dims[i]`. If its matrices are broadcast, it is materialised."""
    access = b.access(operand)
    own = shape_of(operand)
    if access.source is None or not {len(own) - 2, len(own) - 1} <= set(access.dims):
        kept = [d for d, size in enumerate(own) if size != 1]
        whole = b.generic([b.on_loops(access, kept)], [own[d] for d in kept], access.spelling, lambda s, x: x)
        access = Access(whole, tuple(kept), access.spelling)
    placed = Access(access.source, tuple(dims[d] for d in access.dims), access.spelling)
    return b.on_loops(placed, loops)
