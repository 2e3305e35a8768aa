"""Defines reductions: most by a row of identity, combination and torch reference.

`dims` are removed from the shape, or kept with size 1 if `keepdim` is 1. Floats narrower than f32
accumulate in f32 (by the lowering). `argmax` and `argmin` have own classes, because they carry two values.
"""

import math as pymath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cuesta._mlir import arith, ext, ir
from cuesta.dialects import types
from cuesta.dialects.cuesta.dialect import Operand, Operation, Result, reference, verifier
from cuesta.dialects.fields import Flag, Int, Ints
from cuesta.dialects.scalar import Scalar, Value
from cuesta.sizes import Number


@dataclass(frozen=True)
class Reduction:
    """One reduction: `identity(type)` is its neutral element, `combine(s, acc, x)` one step."""

    name: str
    identity: Callable[[ir.Type], float]
    combine: Callable[[Scalar, Value, Value], Value]
    reference: Callable[..., Any]


class Reduced(Operation):
    """A reduction of x over `dims`, which are kept as dims of size 1 with `keepdim`."""

    x: Operand
    dims: Ints
    keepdim: Flag
    result: Result


def _lowest(kind: ir.Type) -> float:
    if isinstance(kind, ir.FloatType):
        return -pymath.inf
    return 0 if kind.width == 1 or kind.is_unsigned else -(1 << (kind.width - 1))


def _highest(kind: ir.Type) -> float:
    if isinstance(kind, ir.FloatType):
        return pymath.inf
    return (1 << kind.width) - 1 if kind.width == 1 or kind.is_unsigned else (1 << (kind.width - 1)) - 1


def _reassociable(op: Callable[..., Value]) -> Callable[..., Value]:
    # Without leave to reassociate, LLVM may not keep one partial sum per vector lane.
    flags = arith.FastMathFlags.reassoc
    return lambda x, y: op(x, y, fastmath=flags)


def _sum(s: Scalar, acc: Value, x: Value) -> Value:
    return _reassociable(arith.addf)(acc, x) if isinstance(x.type, ir.FloatType) else arith.addi(acc, x)


def _prod(s: Scalar, acc: Value, x: Value) -> Value:
    return _reassociable(arith.mulf)(acc, x) if isinstance(x.type, ir.FloatType) else arith.muli(acc, x)


def _each_dim(function: Callable[..., Any]) -> Callable[..., Any]:
    """A torch reduction over one dim, applied to several, the last first."""

    def run(x: torch.Tensor, dims: list[int], keepdim: bool) -> torch.Tensor:
        for dim in sorted(dims, reverse=True):
            x = function(x, dim, keepdim)
        return x

    return run


ROWS: tuple[Reduction, ...] = (
    Reduction("sum", lambda t: 0, _sum, lambda x, dims, keep: torch.sum(x, dims, keep, dtype=x.dtype)),
    Reduction("prod", lambda t: 1, _prod, _each_dim(lambda x, d, k: torch.prod(x, d, k, dtype=x.dtype))),
    Reduction("amax", _lowest, lambda s, acc, x: s.maximum(acc, x), torch.amax),
    Reduction("amin", _highest, lambda s, acc, x: s.minimum(acc, x), torch.amin),
    Reduction("any", lambda t: 0, lambda s, acc, x: arith.ori(acc, x), _each_dim(torch.any)),
    Reduction("all", lambda t: 1, lambda s, acc, x: arith.andi(acc, x), _each_dim(torch.all)),
)

BY_NAME: dict[str, Reduction] = {row.name: row for row in ROWS}


def kept_shape(op: ir.Operation) -> list[Number]:
    """The shape of the op's result, from its operand, `dims` and `keepdim`."""
    dims, keep = set(Reduced.dims.of(op)), Reduced.keepdim.of(op)
    shape = types.shape_of(op.operands[0])
    return [1 if d in dims else size for d, size in enumerate(shape) if keep or d not in dims]


def _verify(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    dims = Reduced.dims.of(op)
    if any(d < 0 or d >= rank for d in dims) or len(set(dims)) != len(dims):
        return f"dims {dims} must be distinct and within [0, {rank})"
    if types.spelling_of(op.operands[0]) != types.spelling_of(op.results[0]):
        return f"keeps the element type {types.spelling_of(op.operands[0])}, got {types.spelling_of(op.results[0])}"
    expected, actual = kept_shape(op), list(types.shape_of(op.results[0]))
    return None if expected == actual else f"reduces to {expected}, but the result is {actual}"


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    dims = Reduced.dims.of(op)
    if not dims:
        return operands[0]
    row = BY_OP_NAME[op.name]
    result: torch.Tensor = row.reference(operands[0], dims, Reduced.keepdim.of(op))
    return result


def _define(row: Reduction) -> type[Reduced]:
    namespace = {"__annotations__": {}, "__doc__": f"`{row.name}` over `dims`."}
    kind = type(row.name, (Reduced,), namespace, name=row.name, traits=[ext.Pure])
    verifier(kind)(_verify)
    reference(kind)(_run)
    return kind


#: The class of each row's op, by the row's name.
OPS: dict[str, type[Reduced]] = {row.name: _define(row) for row in ROWS}
#: Each row by the name of its op.
BY_OP_NAME = {OPS[row.name].OPERATION_NAME: row for row in ROWS}


def row_of(op: ir.Operation) -> Reduction | None:
    """The row of a reduction; None for other ops, and for those without a row, such as argmax and cumsum."""
    return BY_OP_NAME.get(op.name)


class ArgReduction(Operation):
    """The index (i64) of an element along `dim`, which is removed."""

    x: Operand
    dim: Int
    result: Result


class ArgMax(ArgReduction, name="argmax", traits=[ext.Pure]):
    """Index (i64) of the first largest element along `dim`; a NaN counts as largest. `dim` is removed."""


class ArgMin(ArgReduction, name="argmin", traits=[ext.Pure]):
    """Index (i64) of the first smallest element along `dim`; a NaN counts as smallest. `dim` is removed."""


def _ordered(x: torch.Tensor) -> torch.Tensor:
    # Torch's argmax refuses bool. Torch's max along a dim accepts bool, and becomes this op too.
    return x.byte() if x.dtype == torch.bool else x


@reference(ArgMax)
def _argmax(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.argmax(_ordered(operands[0]), ArgReduction.dim.of(op))


@reference(ArgMin)
def _argmin(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.argmin(_ordered(operands[0]), ArgReduction.dim.of(op))


@verifier(ArgMax, ArgMin)
def _verify_arg(op: ir.Operation) -> str | None:
    shape, dim = list(types.shape_of(op.operands[0])), ArgReduction.dim.of(op)
    if not 0 <= dim < len(shape):
        return f"dim {dim} is outside [0, {len(shape)})"
    if types.spelling_of(op.results[0]) != "i64":
        return f"gives positions as i64, not {types.spelling_of(op.results[0])}"
    expected, actual = shape[:dim] + shape[dim + 1 :], list(types.shape_of(op.results[0]))
    return None if expected == actual else f"reduces to {expected}, but the result is {actual}"


class Scan(Operation):
    """Combines each element with those before it along `dim`."""

    x: Operand
    dim: Int
    result: Result


class CumSum(Scan, name="cumsum", traits=[ext.Pure]):
    """Running sum along `dim`."""


class CumProd(Scan, name="cumprod", traits=[ext.Pure]):
    """Running product along `dim`."""


class LogCumSumExp(Scan, name="logcumsumexp", traits=[ext.Pure]):
    """Logarithm of the running sum of exponentials along `dim`, of floats."""


class CumMax(Scan, name="cummax", traits=[ext.Pure]):
    """The largest element so far along `dim`; NaN from the first NaN on."""


class CumMin(Scan, name="cummin", traits=[ext.Pure]):
    """The smallest element so far along `dim`; NaN from the first NaN on."""


@reference(CumSum)
def _cumsum(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cumsum(operands[0], Scan.dim.of(op), dtype=operands[0].dtype)


@reference(CumProd)
def _cumprod(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cumprod(operands[0], Scan.dim.of(op), dtype=operands[0].dtype)


@reference(LogCumSumExp)
def _logcumsumexp(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.logcumsumexp(operands[0], Scan.dim.of(op))


@reference(CumMax)
def _cummax(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cummax(operands[0], Scan.dim.of(op)).values


@reference(CumMin)
def _cummin(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cummin(operands[0], Scan.dim.of(op)).values


@verifier(CumSum, LogCumSumExp, CumProd, CumMax, CumMin)
def _verify_running(op: ir.Operation) -> str | None:
    shape, dim = types.shape_of(op.operands[0]), Scan.dim.of(op)
    if not 0 <= dim < len(shape):
        return f"dim {dim} is outside [0, {len(shape)})"
    return None if types.shape_of(op.results[0]) == shape else "the result must have the operand's shape"
