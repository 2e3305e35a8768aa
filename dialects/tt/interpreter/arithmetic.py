"""Interprets arith and math on numpy arrays.

- maximumf and minimumf give NaN where either operand is; maxnumf and minnumf give the other operand.
- Integer division rounds towards zero; by zero it gives 0, while a GPU's result is undefined.
- A shift by the width or more gives 0, or the sign for shrsi, as in PTX.
- fptosi and fptoui round towards zero and saturate, as PTX's cvt does. NaN gives 0, but the number with
  only the highest bit set where either side has 64 bits. To i8 they pass through 16 bits and wrap.
- bf16 and f16 are computed in f32 and rounded once; f64 to bf16 is rounded twice.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from cuesta._mlir import arith, ir, math
from cuesta.dialects.tt.interpreter.program import Action, Kind, action_maker, elementwise
from cuesta.dialects.tt.interpreter.values import Array, held, register_dtype, signed, spelling, unsigned
from cuesta.dialects.tt.types import shape_of


def by_torch(compute: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """A function of torch, for what numpy lacks; narrow floats pass through f32."""

    def on_arrays(x: Array) -> Array:
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        return compute(torch.from_numpy(np.ascontiguousarray(wide))).numpy()

    return on_arrays


def fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """x·y + z rounded once; for f64 twice."""
    if x.dtype == np.float64:
        return x * y + z
    wide: Array = x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)
    return wide.astype(x.dtype)


def _on_unsigned(compute: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    return lambda x, y: signed(compute(unsigned(x), unsigned(y)))


def _on_bits(numbers: Callable[..., Array], bools: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    """Arithmetic modulo 2 for i1, which numpy's bool does not have."""
    return lambda x, y: bools(x, y) if x.dtype == np.bool_ else numbers(x, y)


_ELEMENTWISE: dict[Kind, Callable[..., Array]] = {
    arith.AddIOp: _on_bits(np.add, np.logical_xor),
    arith.SubIOp: _on_bits(np.subtract, np.logical_xor),
    arith.MulIOp: _on_bits(np.multiply, np.logical_and),
    arith.AndIOp: np.bitwise_and,
    arith.OrIOp: np.bitwise_or,
    arith.XOrIOp: np.bitwise_xor,
    arith.DivSIOp: lambda x, y: (x - np.fmod(x, y)) // y,
    arith.RemSIOp: np.fmod,
    arith.DivUIOp: _on_unsigned(np.floor_divide),
    arith.RemUIOp: _on_unsigned(np.remainder),
    arith.ShLIOp: np.left_shift,
    arith.ShRSIOp: np.right_shift,
    arith.ShRUIOp: _on_unsigned(np.right_shift),
    arith.MaxSIOp: _on_bits(np.maximum, np.logical_and),  # a true i1 is -1
    arith.MinSIOp: _on_bits(np.minimum, np.logical_or),
    arith.MaxUIOp: _on_unsigned(np.maximum),
    arith.MinUIOp: _on_unsigned(np.minimum),
    arith.AddFOp: np.add,
    arith.SubFOp: np.subtract,
    arith.MulFOp: np.multiply,
    arith.DivFOp: np.divide,
    arith.RemFOp: np.fmod,
    arith.MaximumFOp: np.maximum,
    arith.MinimumFOp: np.minimum,
    arith.MaxNumFOp: np.fmax,
    arith.MinNumFOp: np.fmin,
    arith.ExtFOp: np.asarray,
    arith.TruncFOp: lambda x: x.astype(np.float32) if x.dtype == np.float64 else x,
    arith.ExtUIOp: unsigned,
    arith.ExtSIOp: signed,
    arith.UIToFPOp: unsigned,
    arith.SIToFPOp: signed,
    arith.IndexCastOp: signed,
    math.CeilOp: np.ceil,
    math.CosOp: np.cos,
    math.ExpOp: np.exp,
    math.Exp2Op: np.exp2,
    math.FloorOp: np.floor,
    math.LogOp: np.log,
    math.Log2Op: np.log2,
    math.SinOp: np.sin,
    math.SqrtOp: np.sqrt,
    math.AbsFOp: np.abs,
    math.AbsIOp: np.abs,
    math.ErfOp: by_torch(torch.erf),
    math.FmaOp: fused_multiply_add,
    math.RsqrtOp: lambda x: 1 / np.sqrt(x),
}

for _kind, _compute in _ELEMENTWISE.items():
    elementwise(_kind, _compute)


@action_maker(arith.TruncIOp)
def _trunci(op: ir.Operation) -> Action:
    kind = spelling(op.result)
    if kind == "i1":
        return lambda run, x: ((x[0] & 1).astype(np.bool_),)
    return lambda run, x: (held(x[0], kind),)


@action_maker(arith.ConstantOp)
def _constant(op: ir.Operation) -> Action:
    attribute, kind = op.attributes["value"], spelling(op.result)
    rank = len(shape_of(op.result))
    if isinstance(attribute, ir.DenseElementsAttr):
        if attribute.is_splat:
            number = attribute.get_splat_value().value
            array = np.full((1,) * (rank + 1), number)
        else:
            array = np.array(list(attribute)).reshape((1, *shape_of(op.result)))
    else:
        array = np.array([attribute.value])
    value = held(array, kind)
    return lambda run, x: (value,)


@action_maker(arith.SelectOp)
def _select(op: ir.Operation) -> Action:
    def choose(condition: Array, x: Array, y: Array) -> Array:
        if condition.ndim < x.ndim:  # one condition for whole blocks
            condition = condition.reshape(condition.shape + (1,) * (x.ndim - condition.ndim))
        return np.where(condition, x, y)

    return lambda run, x: (choose(*x),)


#: Indexed by the number of the predicate.
_INTEGER_COMPARISONS: tuple[tuple[Callable[..., Array], Callable[[Array], Array]], ...] = (
    (np.equal, unsigned),
    (np.not_equal, unsigned),
    (np.less, signed),
    (np.less_equal, signed),
    (np.greater, signed),
    (np.greater_equal, signed),
    (np.less, unsigned),
    (np.less_equal, unsigned),
    (np.greater, unsigned),
    (np.greater_equal, unsigned),
)


@action_maker(arith.CmpIOp)
def _cmpi(op: ir.Operation) -> Action:
    compare, read = _INTEGER_COMPARISONS[op.attributes["predicate"].value]
    return lambda run, x: (compare(read(x[0]), read(x[1])),)


def _unordered(x: Array, y: Array) -> Array:
    return np.isnan(x) | np.isnan(y)


#: Indexed by the number of the predicate: false, the ordered ones, ord, the unordered ones, uno, true.
_FLOAT_COMPARISONS: tuple[Callable[[Array, Array], Array], ...] = (
    lambda x, y: np.zeros(np.broadcast_shapes(x.shape, y.shape), np.bool_),
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda x, y: (x < y) | (x > y),
    lambda x, y: ~_unordered(x, y),
    lambda x, y: ~((x < y) | (x > y)),
    lambda x, y: ~(x <= y),
    lambda x, y: ~(x < y),
    lambda x, y: ~(x >= y),
    lambda x, y: ~(x > y),
    np.not_equal,
    _unordered,
    lambda x, y: np.ones(np.broadcast_shapes(x.shape, y.shape), np.bool_),
)


@action_maker(arith.CmpFOp)
def _cmpf(op: ir.Operation) -> Action:
    compare = _FLOAT_COMPARISONS[op.attributes["predicate"].value]
    return lambda run, x: (compare(x[0], x[1]),)


@action_maker(arith.FPToSIOp, arith.FPToUIOp)
def _float_to_integer(op: ir.Operation) -> Action:
    kind, is_signed = spelling(op.result), op.name == arith.FPToSIOp.OPERATION_NAME
    wide64 = kind == "i64" or spelling(op.operands[0]) == "f64"
    through = register_dtype("i16" if kind in ("i8", "i1") else kind)
    number = through if is_signed else np.dtype(f"u{through.itemsize}")
    nan = np.array(1 << (8 * through.itemsize - 1), np.uint64).astype(number) if wide64 else number.type(0)

    def convert(x: Array) -> Array:
        return held(saturate(x, number, nan).view(through), kind)

    return lambda run, x: (convert(x[0]),)


def saturate(x: Array, to: np.dtype[np.generic], nan: np.generic | Array) -> Array:
    """Floats rounded towards zero to integers of dtype `to`, saturated at its limits; `nan` for NaN."""
    limits = np.iinfo(to)  # type: ignore[type-var]
    low, high = float(limits.min), float(limits.max) + 1  # powers of two, or zero: f64 has both
    wide = np.trunc(x.astype(np.float64))
    inside = (wide >= low) & (wide < high)
    result = np.where(inside, wide, 0).astype(to)
    result = np.where(wide >= high, to.type(limits.max), result)
    result = np.where(wide < low, to.type(limits.min), result)
    return np.where(np.isnan(wide), nan, result).astype(to)
