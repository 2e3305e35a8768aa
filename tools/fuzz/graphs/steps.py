"""Defines the steps that extend a random graph: one function for each kind of op, with its weight.

A step takes the maker and a value to use as an operand. It returns the new value, or None if it does not apply.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import torch

from cuesta.dialects import types
from cuesta.dialects.cuesta import contraction, indexing, normalisation, pointwise, reduction, shape
from cuesta.dialects.cuesta.traced_strides import OPERAND_STRIDES, RESULT_STRIDES
from cuesta.dialects.types import row_major, spelling_of, static_shape
from cuesta.tools.fuzz.graphs.graph_maker import LARGEST, GraphMaker, Value

Step = Callable[[GraphMaker, Value], Value | None]

#: The value of each parameter of a pointwise row.
PARAMETERS = {
    "negative_slope": 0.2, "alpha": 1.5, "scale": 1.25, "input_scale": 0.75, "beta": 2.0, "threshold": 0.5, "n": 2.0
}  # fmt: skip
#: Ops that are defined for positive numbers only; they mostly get positive operands.
_POSITIVE = frozenset({"sqrt", "rsqrt", "log", "log2", "log1p", "pow", "reciprocal"})
#: Ops whose eager result is NaN at infinity, though the function has a limit there; also ops with poles.
NEVER_INFINITE = frozenset({"polygamma"})
_DIVISIONS = frozenset({"floor_divide", "remainder", "fmod", "trunc_divide"})


@functools.cache
def _rows(spelling: str) -> list[pointwise.Pointwise]:
    """The rows that the importer makes with operands of this type."""
    return [row for row in pointwise.ROWS if _takes(row, types.torch_dtype(spelling))]


def _takes(row: pointwise.Pointwise, dtype: torch.dtype) -> bool:
    if row.repeats:  # GPU kernels do not support repeats
        return False
    if row.promotion == "logical":
        return dtype == torch.bool
    if not row.takes(types.SPELLING[dtype]) or (dtype == torch.float64 and not row.doubles):
        return False
    try:
        result = row.reference(*[torch.ones(1, dtype=dtype)] * row.arity, *(PARAMETERS[p] for p in row.params))
    except (RuntimeError, TypeError):
        return False
    return result.dtype == (torch.bool if row.promotion == "compare" else dtype)


def _row(m: GraphMaker, x: Value) -> Value:
    arithmetic = ["add", "sub", "mul", "maximum", "minimum"]
    rows = _rows(spelling_of(x))
    usual = [row for row in rows if row.name in arithmetic]
    row = m.random.choice(usual if usual and m.chance(0.4) else rows)
    if row.name in _POSITIVE and m.chance(0.8):
        x = m.build.with_number("add", m.build.pointwise("abs", x), 0.25)
    if row.name in NEVER_INFINITE:
        x = m.clamp(x, -30, 30)
    operands = [x, *(m.other(x) for _ in range(row.arity - 1))]
    m.random.shuffle(operands)
    if row.name in _DIVISIONS:
        operands = _divisible(m, *operands)
    parameters = {p: PARAMETERS[p] for p in row.params}
    return _tame(m, m.build.pointwise(row.name, *operands, result=None, **parameters))


def _divisible(m: GraphMaker, x: Value, y: Value) -> list[Value]:
    """x and y, changed so that x / y is defined. For integers, torch refuses the divisor 0, and the lowest number by -1
    is undefined. For floats, torch's remainder is NaN if the quotient is large (the rows' tests have such numbers)."""
    spelling = spelling_of(x)
    small = m.build.pointwise("abs", y) if types.is_float(spelling) else y
    zero = m.build.with_number("lt", small, 0.125) if types.is_float(spelling) else m.build.with_number("eq", y, 0)
    y = m.build.where(zero, m.build.constant(1, spelling), y)
    return [x if spelling == "ui8" else m.clamp(x, -100, 100), y]


def _tame(m: GraphMaker, y: Value) -> Value:
    """Maps y into [-1, 1] in 30% of cases, since powers of powers soon become infinite."""
    return m.build.pointwise("tanh", y) if types.is_float(spelling_of(y)) and m.chance(0.3) else y


def _convert(m: GraphMaker, x: Value) -> Value:
    return m.convert(x, m.random.choice(("f32", "f32", "f64", "bf16", "f16", "i64", "i32", "i8", "ui8", "i1")))


def _where(m: GraphMaker, x: Value) -> Value | None:
    y = m.other(x)
    if m.chance(0.5):
        condition = m.build.pointwise(m.random.choice(("gt", "le", "eq")), x, y)
    else:
        condition = m.convert(m.other(x), "i1")
    if pointwise.broadcast_shape(*(static_shape(v) for v in (condition, x, y))) is None:
        return None
    return m.build.where(condition, *m.random.sample([x, y], 2))


def _reduce(m: GraphMaker, x: Value) -> Value | None:
    spelling = spelling_of(x)
    names = ("any", "all") if spelling == "i1" else ("sum", "sum", "amax", "amin", "prod")
    name = m.random.choice(names)
    dims = [m.dim(x)] if name == "prod" else m.dims(x)
    if name == "prod":
        x = _tanh(m, x)
    return m.build.reduce(name, x, dims, m.chance(0.5))


def _tanh(m: GraphMaker, x: Value) -> Value:
    """tanh of a float x: in a product of larger floats, the order decides whether an intermediate value overflows."""
    return m.build.pointwise("tanh", x) if types.is_float(spelling_of(x)) else x


def _mean(m: GraphMaker, x: Value) -> Value | None:
    return m.build.mean(m.floating(x), m.dims(x), m.chance(0.5))


def _arg_extreme(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    op = m.random.choice((reduction.ArgMax, reduction.ArgMin))
    return op(x, dim, types.tensor([*sizes[:dim], *sizes[dim + 1 :]], "i64")).result


def _running(m: GraphMaker, x: Value) -> Value | None:
    if spelling_of(x) == "i1":
        return None
    if m.chance(0.7):
        return reduction.CumSum(x, m.dim(x), x.type).result
    return reduction.CumProd(_tanh(m, x), m.dim(x), x.type).result


def _permute(m: GraphMaker, x: Value) -> Value | None:
    rank = len(static_shape(x))
    return m.build.permute(x, m.random.sample(range(rank), rank))


def _reshape(m: GraphMaker, x: Value) -> Value:
    count = math.prod(static_shape(x))
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    outer = m.random.choice(divisors)
    sizes = m.random.choice(((outer, count // outer), (count,), (1, count), (outer, 1, count // outer)))
    return m.build.reshape(x, sizes)


def _unsqueeze(m: GraphMaker, x: Value) -> Value:
    sizes = list(static_shape(x))
    sizes.insert(m.random.randint(0, len(sizes)), 1)
    return m.build.reshape(x, sizes)


def _expand(m: GraphMaker, x: Value) -> Value | None:
    sizes = [m.random.choice((2, 3, 7)) if s == 1 and m.chance(0.6) else s for s in static_shape(x)]
    leading = [m.random.choice((1, 2, 5))] if m.chance(0.6) else []
    return m.build.expand(x, [*leading, *sizes]) if len(sizes) < 4 else None


def _slice(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    start, step = m.random.randrange(sizes[dim]), m.random.choice((1, 1, 2, 3))
    return m.build.slice(x, dim, start, m.random.randint(1, (sizes[dim] - start - 1) // step + 1), step)


def _unfold(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    if len(sizes) > 4:
        return None
    dim = m.dim(x)
    width, step = m.random.randint(1, min(sizes[dim], 4)), m.random.choice((1, 1, 2, 3))
    return m.build.unfold(x, dim, m.random.randint(1, (sizes[dim] - width) // step + 1), width, step)


def _cat(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    rest = (*sizes[:dim], *sizes[dim + 1 :])
    alike = [v for v in m.values if len(s := static_shape(v)) == len(sizes) and (*s[:dim], *s[dim + 1 :]) == rest]
    parts = [m.convert(m.random.choice(alike), spelling_of(x)) for _ in range(m.random.randint(1, 2))] if alike else [x]
    return m.build.cat([x, *parts], dim)


def _pad(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    before, after = m.random.randint(-1 if sizes[dim] > 2 else 0, 2), m.random.randint(0, 2)
    return m.build.pad(x, dim, before, after, m.random.choice((0, 1)))


def _flip(m: GraphMaker, x: Value) -> Value | None:
    return shape.Flip(x, m.dims(x), x.type).result


def _copy(m: GraphMaker, x: Value) -> Value | None:
    return shape.Copy(x, m.dense_strides(static_shape(x)), x.type).result


def _iota(m: GraphMaker, x: Value) -> Value:
    spelling = m.random.choice(("i64", "i32", "f32"))
    number = float if types.is_float(spelling) else int
    size = m.random.choice(static_shape(x) or (3,))
    start, step = m.random.choice((0, 1, -2)), m.random.choice((1, 2, -1))
    return shape.Iota(number(start), number(step), types.tensor([size], spelling)).result


def _index(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    if len(sizes) > 3:
        return None
    dims = m.dims(x)[:2]
    indices = [m.positions(sizes[d]) for d in dims]
    found = indexing.indexed_shape(sizes, [static_shape(i) for i in indices], dims)
    if found is None or len(found[0]) > 5 or math.prod(found[0]) > LARGEST:
        return None
    indices = [m.build.expand(i, found[1]) for i in indices]
    return indexing.Index(x, indices, dims, types.tensor(list(found[0]), spelling_of(x))).result


def _gather(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    fitting = [
        v
        for v in m.values
        if len(s := static_shape(v)) == len(sizes)
        and all(n <= size for d, (n, size) in enumerate(zip(s, sizes, strict=True)) if d != dim)
    ]
    if not fitting:
        return None
    index = m.clamp(m.convert(m.random.choice(fitting), "i64"), 0, sizes[dim] - 1)
    return indexing.Gather(x, index, dim, types.tensor(static_shape(index), spelling_of(x))).result


def _window(m: GraphMaker, x: Value) -> Value | None:
    """One position of each pooling window, or a dim whose elements are repeated; partly out of bounds."""
    sizes = static_shape(x)
    starts, steps, divisors, found = ([0] * len(sizes), [1] * len(sizes), [1] * len(sizes), list(sizes))
    for d in m.dims(x):
        starts[d], steps[d], divisors[d] = m.random.choice(((-1, 1, 1), (1, 2, 1), (-2, 3, 1), (0, 1, 2), (-1, 1, 3)))
        found[d] = m.random.randint(1, (sizes[d] + 2) * divisors[d] // steps[d] or 1)
    if math.prod(found) > LARGEST:
        return None
    outside = m.random.choice((0, 1, -1)) if spelling_of(x) not in ("i1", "ui8") else 0
    columns = (starts, steps, divisors)
    return indexing.Window(x, *columns, outside, types.tensor(found, spelling_of(x))).result


def _scatter_one(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    dim = m.dim(x)
    line = (*sizes[:dim], 1, *sizes[dim + 1 :])
    fitting = [v for v in m.values if pointwise.broadcast_shape(static_shape(v), line) == line]
    index, value = (
        m.build.expand(m.convert(m.random.choice(fitting), spelling), line)
        if fitting
        else m.build.constant(1, spelling, line)
        for spelling in ("i64", spelling_of(x))
    )
    return indexing.ScatterOne(x, m.clamp(index, 0, sizes[dim] - 1), value, dim, x.type).result


def _softmax(m: GraphMaker, x: Value) -> Value | None:
    x, dim = m.floating(x), m.dim(x)
    if m.chance(0.5):
        return normalisation.Softmax(x, dim, m.chance(0.3), x.type).result
    return normalisation.LogSoftmax(x, dim, x.type).result


def _softmax_backward(m: GraphMaker, x: Value) -> Value | None:
    x = m.floating(x)
    op = m.random.choice((normalisation.SoftmaxBackward, normalisation.LogSoftmaxBackward))
    return op(m.other(x, broadcasts=False), x, m.dim(x), x.type).result


def _layer_norm(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    if spelling_of(x) not in ("f32", "f64"):
        return None
    x = m.clamp(x, -100, 100)  # torch's running mean is NaN where it meets an infinity
    rank = m.random.randint(1, len(sizes))
    weight, bias = (
        m.build.pointwise("cos", m.other(m.build.constant(number, spelling_of(x), sizes[-rank:]), broadcasts=False))
        for number in (0.5, 0.25)
    )
    kept = types.tensor([*sizes[:-rank], *[1] * rank], spelling_of(x))
    op = normalisation.LayerNorm(x, weight, bias, rank, 1e-3, x.type, kept, kept)
    return m.random.choice((op.y, op.y, op.mean, op.rstd))


def _mm(m: GraphMaker, x: Value) -> Value | None:
    sizes = static_shape(x)
    if len(sizes) not in (2, 3) or not types.is_float(spelling_of(x)) or spelling_of(x) == "f16":
        return None
    fitting = [
        v
        for v in m.values
        if len(s := static_shape(v)) == len(sizes) and s[:-2] == sizes[:-2] and s[-2] == sizes[-1] and s[-1] < 70
    ]
    if fitting:
        y = m.convert(m.random.choice(fitting), spelling_of(x))
    else:
        y = m.build.permute(x, [*range(len(sizes) - 2), len(sizes) - 1, len(sizes) - 2])
    result = types.tensor([*sizes[:-1], static_shape(y)[-1]], spelling_of(x))
    op = contraction.MatMul(x, y, result)
    OPERAND_STRIDES.put(op, [[*m.dense_strides(static_shape(v))] for v in (x, y)])
    RESULT_STRIDES.put(op, [row_major(result.shape)])
    return _tame(m, op.result)


def _aten(m: GraphMaker, x: Value) -> Value | None:
    """A call into ATen between kernels, which requires certain strides of its operand."""
    sizes, spelling = static_shape(x), spelling_of(x)
    strides = m.dense_strides(sizes)
    overload, arguments = m.random.choice(
        (("aten.roll.default", [[1], [m.dim(x)]]), ("aten.triu.default", [0]))
        if len(sizes) > 1
        else (("aten.roll.default", [[1], [0]]),)
    )
    (y,) = m.build.aten(overload, [x, *arguments], {}, [(sizes, spelling, row_major(sizes))], "a test", [strides])
    return y


#: Steps that take a value of any rank, and those that need one of the given rank or more, with weights.
_TABLE: tuple[tuple[int, Step, float], ...] = (
    (0, _row, 40), (0, _convert, 7), (0, _where, 5), (1, _reduce, 14), (1, _mean, 4), (1, _arg_extreme, 2),
    (1, _running, 3), (2, _permute, 6), (0, _reshape, 6), (0, _unsqueeze, 3), (0, _expand, 5), (1, _slice, 6),
    (1, _unfold, 3), (1, _cat, 6), (1, _pad, 3), (1, _flip, 3), (1, _copy, 1), (0, _iota, 1), (1, _index, 3),
    (1, _gather, 3), (1, _window, 4), (1, _scatter_one, 3), (1, _softmax, 4), (1, _softmax_backward, 2),
    (1, _layer_norm, 2), (2, _mm, 2), (1, _aten, 2),
)  # fmt: skip


def random_step(m: GraphMaker) -> Value | None:
    """Applies a random step to a recent value; None if the step does not apply to it."""
    ((rank, step, _),) = m.random.choices(_TABLE, [weight for *_, weight in _TABLE])
    x = m.recent()
    return step(m, x) if len(static_shape(x)) >= rank else None
