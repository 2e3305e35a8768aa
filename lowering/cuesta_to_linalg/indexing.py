"""Lowers reads at computed positions to a generic over the result that extracts from the whole source.

%2 = cuesta.index(%w, %i) {dims = [0]}   →   linalg.generic ins(%i) { tensor.extract %w[%i, linalg.index 1] }
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from cuesta._mlir import arith, ir, linalg, tensor
from cuesta.dialects import host
from cuesta.dialects.cuesta.indexing import CheckedRead, Gather, Index, Window, indexed_shape
from cuesta.dialects.cuesta.shape import Flip
from cuesta.dialects.scalar import Scalar, Value, load_storage, scalar_for
from cuesta.dialects.types import index_value, shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.ranges import range_of
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import Number, Size

#: The count of indices from which several threads check them: so many do not fit in L2.
_MANY = 1 << 16


def _position(s: Scalar, index: Value, size: Number) -> Value:
    """`index` as a position within [0, size): negative ones count from the end.

    An earlier check reported an index out of range; clamping keeps the read inside the memory.
    """
    zero, last, n = s.const(index, 0), s.const(index, size - 1), s.const(index, size)
    wrapped = s.select(s.compare("lt", index, zero), s.add(index, n), index)
    return arith.index_cast(ir.IndexType.get(), s.maximum(s.minimum(wrapped, last), zero))


def _places(index: Value, size: Number) -> Callable[[Scalar, Value], Value]:
    """The function that converts an element of `index` to a position within [0, size)."""
    known = range_of(index)
    if known is not None and not isinstance(size, Size) and known[0] >= 0 and known[1] < size:
        return lambda s, x: arith.index_cast(ir.IndexType.get(), x)
    return lambda s, x: _position(s, x, size)


def check_range(b: LinalgBuilder, index: Value, size: Number, first: Number) -> None:
    """Emits a reduction that tells whether any index is outside [first, size), and a check of its result. Many indices
    are first reduced row by row, so that threads share the rows."""
    if not b.checks:
        return
    access = b.access(index)
    if access.source is None and _lies_within(access, shape_of(index), size, first):
        return
    loops = list(access.dims) if access.source is None else sorted(access.dims)

    def outside(s: Scalar, found: Value, x: Value) -> Value:
        low, high = s.compare("lt", x, s.const(x, first)), s.compare("ge", x, s.const(x, size))
        return arith.ori(found, arith.ori(low, high))

    sizes = [shape_of(index)[d] for d in loops]
    whole = b.covering_access(index, loops) if access.source is None else b.on_loops(access, loops)
    by_row = _has_many_rows(sizes)
    bad = b.generic(
        [whole], sizes, "i1", outside, reduced=range(1 if by_row else 0, len(loops)), identity=lambda kind: 0
    )
    if by_row:
        rows = Access(bad, (0,), "i1")
        bad = b.generic([rows], sizes[:1], "i1", _either, reduced=[0], identity=lambda kind: 0)
    message = f"index out of range: the indexed dim has size {size}"
    host.Check.build([bad], message=message)


def _either(s: Scalar, found: Value, x: Value) -> Value:
    return arith.ori(found, x)


def _has_many_rows(sizes: Sequence[Number]) -> bool:
    """Whether there are enough indices, in rows, for several threads to pay off."""
    return len(sizes) > 1 and not any(isinstance(n, Size) for n in sizes) and math.prod(sizes) >= _MANY


def _lies_within(access: Access, sizes: tuple[Number, ...], size: Number, first: Number) -> bool:
    """Whether a constant or a range is known to stay within [first, size)."""
    if isinstance(size, Size) or isinstance(first, Size) or isinstance(access.number, Size):
        return False
    if access.number is not None:
        return first <= access.number < size
    count = sizes[access.dims[0]]
    if isinstance(count, Size):
        return False
    last = access.start + access.step * (count - 1)
    return first <= min(access.start, last) and max(access.start, last) < size


def _first(op: ir.Operation, size: Number) -> Number:
    """The least valid index of an op along a dim of `size`."""
    return 0 if CheckedRead.from_zero.is_on(op) else -size


def _extract(source: Value, positions: list[Value | None], sizes: tuple[Number, ...], spelling: str) -> Value:
    """The element of the squeezed `source` at `positions`, one for each dim of its full shape `sizes`."""
    chosen = [p for p, size in zip(positions, sizes, strict=True) if size != 1]
    assert all(p is not None for p in chosen)
    return load_storage(tensor.extract(source, chosen), spelling)


@lowers(Index)
def lower_index(b: LinalgBuilder, op: ir.Operation) -> None:
    x, *indices = list(op.operands)
    dims = Index.dims.of(op)
    sizes, result = shape_of(x), shape_of(op.results[0])
    shapes = indexed_shape(sizes, [shape_of(i) for i in indices], dims)
    assert shapes is not None
    _, broadcast, at = shapes
    loops = [d for d, s in enumerate(result) if s != 1]
    source = b.squeezed_form(x)
    if not Index.in_range.is_on(op):
        for index, dim in zip(indices, dims, strict=True):
            check_range(b, index, sizes[dim], _first(op, sizes[dim]))
    # Result dims: dims of x before `at`, the broadcast dims of the indices, the other dims of x.
    kept = [d for d in range(len(sizes)) if d not in dims]
    result_dim = {d: i if i < at else i + len(broadcast) for i, d in enumerate(kept)}
    accesses = []
    places = {dim: _places(index, sizes[dim]) for index, dim in zip(indices, dims, strict=True)}
    for index in indices:
        access = b.access(index)
        shifted = type(access)(
            access.source, tuple(d + at for d in access.dims), access.spelling, access.number, access.start, access.step
        )
        accesses.append(b.on_loops(shifted, loops))

    def body(s: Scalar, *positions: Value) -> Value:
        signed = Scalar()
        by_dim = dict(zip(dims, positions, strict=True))
        where: list[Value | None] = []
        for d, size in enumerate(sizes):
            if d in by_dim:
                where.append(places[d](signed, by_dim[d]))
            else:
                where.append(linalg.IndexOp(loops.index(result_dim[d])).result if size != 1 else None)
        return _extract(source, where, sizes, spelling_of(x))

    b.squeezed[op.results[0]] = b.generic(accesses, [result[d] for d in loops], spelling_of(x), body)


@lowers(Gather)
def lower_gather(b: LinalgBuilder, op: ir.Operation) -> None:
    x, index = op.operands
    dim, sizes, result = Gather.dim.of(op), shape_of(x), shape_of(op.results[0])
    loops = [d for d, s in enumerate(result) if s != 1]
    source = b.squeezed_form(x)
    check_range(b, index, sizes[dim], _first(op, sizes[dim]))

    def body(s: Scalar, at: Value) -> Value:
        where: list[Value | None] = []
        for d, size in enumerate(sizes):
            if d == dim:
                where.append(_position(Scalar(), at, size))
            elif d in loops:
                where.append(linalg.IndexOp(loops.index(d)).result)
            else:
                where.append(arith.constant(ir.IndexType.get(), 0))
        return _extract(source, where, sizes, spelling_of(x))

    access = b.on_loops(b.access(index), loops)
    b.squeezed[op.results[0]] = b.generic([access], [result[d] for d in loops], spelling_of(x), body)


@lowers(Flip)
def lower_flip(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, dims = shape_of(op.operands[0]), set(Flip.dims.of(op))
    loops = [d for d, s in enumerate(sizes) if s != 1]
    source, spelling = b.squeezed_form(op.operands[0]), spelling_of(op.operands[0])

    def body(s: Scalar) -> Value:
        where: list[Value | None] = []
        for d, size in enumerate(sizes):
            if size == 1:
                where.append(None)
                continue
            here = linalg.IndexOp(loops.index(d)).result
            last = index_value(size - 1)
            where.append(arith.subi(last, here) if d in dims else here)
        return _extract(source, where, sizes, spelling)

    b.squeezed[op.results[0]] = b.generic([], [sizes[d] for d in loops], spelling, lambda s: body(scalar_for(spelling)))


@lowers(Window)
def lower_window(b: LinalgBuilder, op: ir.Operation) -> None:
    (x,) = op.operands
    sizes, result, spelling = shape_of(x), shape_of(op.results[0]), spelling_of(x)
    columns = [Window.starts.of(op), Window.steps.of(op), Window.divisors.of(op)]
    repeated = Window.repeated.find(op) or []
    loops = [d for d, s in enumerate(result) if s != 1]
    source = b.squeezed_form(x)
    index = ir.IndexType.get()

    def body(s: Scalar) -> Value:
        where: list[Value | None] = []
        inside: list[Value] = []
        for d, (size, count, start, step, divisor) in enumerate(zip(sizes, result, *columns, strict=True)):
            at = linalg.IndexOp(loops.index(d)).result if count != 1 else arith.constant(index, 0)
            if step != 1:
                at = arith.muli(at, arith.constant(index, step))
            low, high = start // divisor, (start + (count - 1) * step) // divisor
            if step < 0:
                low, high = high, low
            # The dividend is made non-negative, so that the division is a shift or one multiplication.
            whole = max(-low, 0) if divisor != 1 else 0
            if start + whole * divisor:
                at = arith.addi(at, arith.constant(index, start + whole * divisor))
            if divisor != 1:
                at = arith.divui(at, arith.constant(index, divisor))
                at = arith.subi(at, arith.constant(index, whole)) if whole else at
            if isinstance(low, Size) or low < 0:
                zero = arith.constant(index, 0)
                inside += [] if d in repeated else [arith.cmpi(arith.CmpIPredicate.sge, at, zero)]
                at = arith.maxsi(at, zero)
            past = high - size
            if isinstance(past, Size) or past >= 0:
                last = index_value(size - 1)
                inside += [] if d in repeated else [arith.cmpi(arith.CmpIPredicate.sle, at, last)]
                at = arith.minsi(at, last)
            where.append(at if size != 1 else None)
        value = _extract(source, where, sizes, spelling)
        if not inside:
            return value
        outside = s.const(value, Window.outside.of(op))
        return arith.select(functools.reduce(arith.andi, inside), value, outside)

    b.squeezed[op.results[0]] = b.generic(
        [], [result[d] for d in loops], spelling, lambda s: body(scalar_for(spelling))
    )
