"""Lowers reductions, running sums, and argmax and argmin.

%1 = cuesta.sum(%0) {dims = [1]}   →   %e = linalg.fill 0
                                       %1 = linalg.generic {parallel, reduction} ins(%0) outs(%e)
"""

from __future__ import annotations

import functools
import math as pymath
from collections.abc import Callable
from dataclasses import dataclass

from cuesta._mlir import arith, ir, linalg, math
from cuesta.dialects import types
from cuesta.dialects.cuesta import reduction
from cuesta.dialects.cuesta.dialect import Operation
from cuesta.dialects.scalar import Scalar, Value
from cuesta.dialects.top_module import on_cpu
from cuesta.dialects.types import shape_of, spelling_of
from cuesta.lowering.cuesta_to_linalg.builder import Access, LinalgBuilder
from cuesta.lowering.cuesta_to_linalg.rules import lowers
from cuesta.sizes import Number


def _loops(sizes: tuple[Number, ...]) -> list[int]:
    return [d for d, s in enumerate(sizes) if s != 1]


def lower_reduction(row: reduction.Reduction, b: LinalgBuilder, op: ir.Operation) -> None:
    """Lowers the reduction of a row."""
    sizes = shape_of(op.operands[0])
    loops = _loops(sizes)
    dims = set(reduction.Reduced.dims.of(op))
    spelling = spelling_of(op.results[0])
    if not dims & set(loops):
        # Dims of size 1 leave nothing to combine, and a generic without a reduced loop would not accumulate.
        access = b.on_loops(b.access(op.operands[0]), loops)
        b.squeezed[op.results[0]] = b.generic([access], [sizes[d] for d in loops], spelling, lambda s, x: x)
        return
    wide = types.opmath(spelling)

    def combine(s: Scalar, acc: Value, x: Value) -> Value:
        return row.combine(s, acc, s.convert(x, acc.type))

    total = b.generic(
        [b.covering_access(op.operands[0], loops)],
        [sizes[d] for d in loops],
        wide,
        combine if wide != spelling else row.combine,
        reduced=[i for i, d in enumerate(loops) if d in dims],
        identity=row.identity,
    )
    if wide != spelling:
        kept = [sizes[d] for d in loops if d not in dims]
        access = Access(total, tuple(range(len(kept))), wide)
        total = b.generic([access], kept, spelling, lambda s, x: s.convert(x, types.element(spelling)))
    b.squeezed[op.results[0]] = total


for _row in reduction.ROWS:
    lowers(reduction.OPS[_row.name])(functools.partial(lower_reduction, _row))


@lowers(reduction.ArgMax, reduction.ArgMin)
def lower_argmax(b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, dim = shape_of(op.operands[0]), reduction.ArgReduction.dim.of(op)
    loops = _loops(sizes)
    if sizes[dim] == 1:
        outer = [sizes[d] for d in loops]
        b.squeezed[op.results[0]] = b.generic([Access(None, (), "i64", number=0)], outer, "i64", lambda s, x: x)
        return
    along = loops.index(dim)
    kept = [i for i in range(len(loops)) if i != along]
    spelling = spelling_of(op.operands[0])
    largest = reduction.ArgMax.matches(op)
    identity = reduction.BY_NAME["amax" if largest else "amin"].identity

    def body(s: Scalar, outs: list[Value], ins: list[Value]) -> list[Value]:
        (best, at), (x,) = outs, ins
        here = arith.index_cast(at.type, linalg.IndexOp(along).result)
        better = s.compare("gt" if largest else "lt", x, best)
        if isinstance(x.type, ir.FloatType):
            fresh_nan = arith.andi(s.is_nan(x), arith.xori(s.is_nan(best), s.const(better, 1)))
            better = arith.ori(better, fresh_nan)
        return [s.select(better, x, best), s.select(better, here, at)]

    _, index = b.generics(
        [b.covering_access(op.operands[0], loops)],
        [sizes[d] for d in loops],
        [(kept, spelling, identity), (kept, "i64", lambda kind: 0)],
        body,
        reduced=[along],
    )
    b.squeezed[op.results[0]] = index


def _log_add(s: Scalar, x: Value, y: Value) -> Value:
    """log(e^x + e^y); for two equal infinities, that infinity."""
    low, high, one = s.minimum(x, y), s.maximum(x, y), s.const(x, 1)
    # log(1 + e) is log u · e / (u - 1), with u = 1 + e rounded: the combine regions of GPUs cannot call a library.
    e = math.exp(s.sub(low, high))
    u = s.add(one, e)
    more = s.select(s.compare("eq", u, one), e, s.div(s.mul(math.log(u), e), s.sub(u, one)))
    apart = arith.ori(s.compare("ne", low, high), s.compare("lt", s.abs(low), s.const(low, pymath.inf)))
    return s.select(apart, s.add(high, more), high)


@dataclass(frozen=True)
class _Running:
    """How a running op accumulates."""

    #: The initial accumulator, given its type.
    first: Callable[[ir.Type], float]
    step: Callable[[Scalar, Value, Value], Value]
    #: Whether each step rounds. On a CPU the steps are sequential, and the accumulator is f64, as ATen's is there: in
    #: f32 the sum of ten million tenths would be 1.09 million. GPUs combine partial results instead.
    rounds: bool


_RUNNING: dict[type[Operation], _Running] = {
    reduction.CumSum: _Running(lambda kind: 0, lambda s, x, y: s.add(x, y), rounds=True),
    reduction.CumProd: _Running(lambda kind: 1, lambda s, x, y: s.mul(x, y), rounds=True),
    reduction.LogCumSumExp: _Running(lambda kind: -pymath.inf, _log_add, rounds=True),
    reduction.CumMax: _Running(reduction.BY_NAME["amax"].identity, lambda s, x, y: s.maximum(x, y), rounds=False),
    reduction.CumMin: _Running(reduction.BY_NAME["amin"].identity, lambda s, x, y: s.minimum(x, y), rounds=False),
}


def _lower_running(row: _Running, b: LinalgBuilder, op: ir.Operation) -> None:
    sizes, dim = shape_of(op.operands[0]), reduction.Scan.dim.of(op)
    loops = _loops(sizes)
    spelling = spelling_of(op.operands[0])
    if sizes[dim] == 1:
        access = b.on_loops(b.access(op.operands[0]), loops)
        b.squeezed[op.results[0]] = b.generic([access], [sizes[d] for d in loops], spelling, lambda s, x: x)
        return
    along = loops.index(dim)
    kept = [i for i in range(len(loops)) if i != along]
    carried = types.opmath(spelling)
    if row.rounds and carried == "f32" and on_cpu(op.operands[0]):
        carried = "f64"

    def body(s: Scalar, outs: list[Value], ins: list[Value]) -> list[Value]:
        # The steps are sequential: this loop carries its total and stores it at each step.
        total = row.step(s, outs[0], s.convert(ins[0], outs[0].type))
        return [total, s.convert(total, ins[0].type)]

    _, running = b.generics(
        [b.covering_access(op.operands[0], loops)],
        [sizes[d] for d in loops],
        [(kept, carried, row.first), (list(range(len(loops))), spelling, None)],
        body,
        reduced=[along],
    )
    b.squeezed[op.results[0]] = running


for _kind, _running in _RUNNING.items():
    lowers(_kind)(functools.partial(_lower_running, _running))
