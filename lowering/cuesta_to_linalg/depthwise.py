"""Lowers a depthwise convolution to one generic that sums over the places of a window.

%2 = cuesta.depthwise(%x, %w)   →   %2 = linalg.generic {n, i, j, c parallel; k, l reduction} ins(%w) outs(0)
                                       { addf %out, mulf (tensor.extract %x[n, i * stride + k - padding, …, c]), %w }
"""

from __future__ import annotations

import functools

from cuesta._mlir import arith, ir, linalg, tensor
from cuesta.dialects.cuesta.contraction import Depthwise
from cuesta.dialects.kernel_fields import WindowedDim, put_windowed_dims
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.types import element, shape_of, spelling_of, static
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers


@lowers(Depthwise)
def lower_depthwise(b: LinalgBuilder, op: ir.Operation) -> None:
    x, weight = op.operands
    n, height, width, c = shape_of(op.results[0])
    places = [static(size) for size in shape_of(x)[1:3]]
    sizes = [n, height, width, c, *shape_of(weight)[:2]]
    loops = [d for d, size in enumerate(sizes) if size != 1]
    parameters = list(zip(Depthwise.stride.of(op), Depthwise.dilation.of(op), Depthwise.padding.of(op), strict=True))
    source = b.squeezed_form(x)
    wide = element(spelling_of(op.results[0]))

    def index(d: int) -> Value:
        return linalg.IndexOp(loops.index(d)).result if d in loops else arith.constant(ir.IndexType.get(), 0)

    def step(s: Scalar, total: Value, w: Value) -> Value:
        where, inside = [index(0)], []
        for d, (size, (stride, dilation, padding)) in enumerate(zip(places, parameters, strict=True)):
            at = _affine(index(1 + d), stride, 0)
            at = _affine(arith.addi(at, _affine(index(4 + d), dilation, 0)), 1, -padding)
            clamped, within = _clamped(at, size)
            where.append(clamped)
            inside.append(within)
        where.append(index(3))
        kept = [at for at, size in zip(where, shape_of(x), strict=True) if size != 1]
        read = s.convert(tensor.extract(source, kept), wide)
        read = arith.select(functools.reduce(arith.andi, inside), read, s.const(read, 0))
        return s.add(total, s.mul(read, w))

    total = b.generic(
        [b.on_loops(_contiguous(b, weight, spelling_of(op.results[0])), loops)],
        [sizes[d] for d in loops],
        spelling_of(op.results[0]),
        step,
        reduced=[loops.index(d) for d in (4, 5) if d in loops],
        identity=lambda kind: 0,
    )
    at = {d: i for i, d in enumerate(loops)}
    dims = zip(range(2), parameters, places, strict=True)
    put_windowed_dims(
        total.owner, [WindowedDim(at.get(1 + d, -1), at.get(4 + d, -1), *numbers, size) for d, numbers, size in dims]
    )
    b.squeezed[op.results[0]] = total


def _contiguous(b: LinalgBuilder, weight: Value, spelling: str) -> Access:
    """A copy of the weight [h, w, C] of the sums' type, which no program has to convert, by the loops of the
    convolution. Its channels lie side by side in memory."""
    kept = [d for d, size in enumerate(shape_of(weight)) if size != 1]
    with ir.Location.name("copy"):
        access = b.on_loops(b.access(weight), kept)
        wide = element(spelling)
        copied = b.generic([access], [shape_of(weight)[d] for d in kept], spelling, lambda s, x: s.convert(x, wide))
    return Access(copied, tuple((4, 5, 3)[d] for d in kept), spelling)


def _affine(x: Value, factor: int, addend: int) -> Value:
    if factor != 1:
        x = arith.muli(x, arith.constant(x.type, factor))
    return arith.addi(x, arith.constant(x.type, addend)) if addend else x


def _clamped(at: Value, size: int) -> tuple[Value, Value]:
    """The position within [0, size) that is nearest to `at`, and whether `at` is within."""
    zero, last = arith.constant(at.type, 0), arith.constant(at.type, size - 1)
    within = arith.andi(arith.cmpi(arith.CmpIPredicate.sge, at, zero), arith.cmpi(arith.CmpIPredicate.sle, at, last))
    return arith.minsi(arith.maxsi(at, zero), last), within
