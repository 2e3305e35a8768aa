"""Lowers complex numbers to integers of twice a part's width: the real part is the lower half, as in memory.

%1 = cuesta.real(%0)   →   linalg.generic ins(%0) { arith.trunci, arith.bitcast }
"""

from __future__ import annotations

from cuesta._mlir import arith, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.complex_numbers import Complex, Imag, Real, ViewAsComplex, ViewAsReal
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers


@lowers(Real, Imag)
def lower_part(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, spelling = shape_of(op.results[0]), spelling_of(op.results[0])
    loops = [d for d, s in enumerate(sizes) if s != 1]
    upper = Imag.matches(op)

    def body(s: Scalar, whole: Value) -> Value:
        half = _half(spelling)
        if upper:
            whole = arith.shrui(whole, s.const(whole, half.width))
        return arith.bitcast(types.element(spelling), arith.trunci(half, whole))

    access = b.broadcast_access(op.operands[0], sizes, loops)
    b.squeezed[op.results[0]] = b.generic([access], [sizes[d] for d in loops], spelling, body)


@lowers(Complex)
def lower_complex(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, spelling = shape_of(op.results[0]), spelling_of(op.results[0])
    loops = [d for d, s in enumerate(sizes) if s != 1]
    half = _half(spelling_of(op.operands[0]))
    whole = types.element(types.storage(spelling))

    def body(s: Scalar, *parts: Value) -> Value:
        real, imag = (arith.extui(whole, arith.bitcast(half, part)) for part in parts)
        return arith.ori(real, arith.shli(imag, s.const(whole, half.width)))

    accesses = [b.broadcast_access(x, sizes, loops) for x in op.operands]
    b.squeezed[op.results[0]] = b.generic(accesses, [sizes[d] for d in loops], spelling, body)


def _half(part: str) -> ir.IntegerType:
    return ir.IntegerType.get_signless(8 * types.byte_size(part))


@lowers(ViewAsReal)
def lower_view_as_real(b: LinalgBuilder, op: ir.Operation) -> None:
    b.full[op.results[0]] = ViewAsReal(b.full_form(op.operands[0]), op.results[0].type).result


@lowers(ViewAsComplex)
def lower_view_as_complex(b: LinalgBuilder, op: ir.Operation) -> None:
    (result,) = op.results
    stored = types.tensor(shape_of(result), types.storage(spelling_of(result)))
    b.full[result] = ViewAsComplex(b.full_form(op.operands[0]), stored).result
