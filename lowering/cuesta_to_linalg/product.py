"""Lowers a matrix product that becomes a kernel of cuesta's to one generic, so that fusion sees it whole.

%2 = cuesta.mm(%a, %b)   →   %e = linalg.fill 0
                             %2 = linalg.generic {parallel, reduction, parallel} ins(%a, %b) outs(%e)
                                    { addf %out, mulf (extf %a), (extf %b) }
"""

from __future__ import annotations

from cuesta._mlir import ir
from cuesta.dialects.cuesta.contraction import AnyProduct, MatMul, SoftmaxMatMul
from cuesta.dialects.product import COMPUTED, FACTOR, PRECISION, ROLES, SAFE_SOFTMAX, SOFTMAX, TILE
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.types import element, shape_of, spelling_of
from cuesta.errors import Unsupported
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import hint


@lowers(MatMul)
def lower_product(b: LinalgBuilder, op: ir.Operation) -> None:
    """Lowers a product that has a tile. Raises Unsupported for a product that no kernel was chosen for."""
    if MatMul.product.find(op) is None:
        raise Unsupported(f"neither a library nor a kernel was chosen for a matrix product, at {op.location}")
    _lower(b, op, COMPUTED if MatMul.computed.is_on(op) else None)


@lowers(SoftmaxMatMul)
def lower_softmax_product(b: LinalgBuilder, op: ir.Operation) -> None:
    """Lowers a product by a softmax. Its generic has the logsumexp as a second result where something reads it."""
    _lower(b, op, SAFE_SOFTMAX if SoftmaxMatMul.safe.of(op) else SOFTMAX)


def _lower(b: LinalgBuilder, op: ir.Operation, factor: str | None) -> None:
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
        _access(b, left, [*range(at_k), at_k], loops, (at_m, at_k)),
        _access(b, right, [*batch, at_k, at_n], loops, (at_k, at_n)),
    ]
    spelling = spelling_of(op.results[0])
    wide = element(spelling)

    def step(s: Scalar, totals: list[Value], factors: list[Value]) -> list[Value]:
        x, y = (s.convert(factor, wide) for factor in factors)
        product = s.add(totals[0], s.mul(x, y))
        return [product, *(s.add(total, x) for total in totals[1:])]

    read = [result for i, result in enumerate(op.results) if i == 0 or any(True for _ in result.uses)]
    kept = [[loops.index(d) for d in loops if d != at_k], [loops.index(d) for d in loops if d not in (at_k, at_n)]]
    outputs = [(dims, spelling, _zero) for _, dims in zip(read, kept, strict=False)]
    totals = b.generics(accesses, [sizes[d] for d in loops], outputs, step, reduced=[loops.index(at_k)])
    made = totals[0].owner
    ROLES.put(made, [loops.index(d) for d in (at_m, at_n, at_k)])
    TILE.put(made, MatMul.product.of(op))
    if (precision := AnyProduct.precision.find(op)) is not None:
        PRECISION.put(made, precision)
    if factor is not None:
        FACTOR.put(made, factor)
    b.squeezed.update(zip(read, totals, strict=True))


def _zero(_: ir.Type) -> float:
    return 0


def _access(b: LinalgBuilder, operand: Value, dims: list[int], loops: list[int], matrix: tuple[int, int]) -> Access:
    """The access of `operand`, whose dim i is loop `dims[i]`. If it does not vary along both loops of `matrix`, it is
    materialised."""
    access = b.access(operand)
    own = shape_of(operand)
    if access.source is None or not set(matrix) <= {dims[d] for d in access.dims}:
        kept = [d for d, size in enumerate(own) if size != 1]
        whole = b.generic([b.on_loops(access, kept)], [own[d] for d in kept], access.spelling, lambda s, x: x)
        access = Access(whole, tuple(kept), access.spelling)
    placed = Access(access.source, tuple(dims[d] for d in access.dims), access.spelling)
    return b.on_loops(placed, loops)
