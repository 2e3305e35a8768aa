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
from cuesta.dialects.cuesta.dialect import REFERENCES, VERIFIERS, Operation, ints, reference, verifier
from cuesta.dialects.scalar import Scalar, Value
from cuesta.sizes import Number


@dataclass(frozen=True)
class Reduction:
    """One reduction: `identity(type)` is its neutral element, `combine(s, acc, x)` one step."""

    name: str
    identity: Callable[[ir.Type], float]
    combine: Callable[[Scalar, Value, Value], Value]
    reference: Callable[..., Any]


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
    dims, keep = set(ints(op.attributes["dims"])), op.attributes["keepdim"].value
    shape = types.shape_of(op.operands[0])
    return [1 if d in dims else size for d, size in enumerate(shape) if keep or d not in dims]


def _verify(op: ir.Operation) -> str | None:
    rank = len(types.shape_of(op.operands[0]))
    dims = ints(op.attributes["dims"])
    if any(d < 0 or d >= rank for d in dims) or len(set(dims)) != len(dims):
        return f"dims {dims} must be distinct and within [0, {rank})"
    if types.spelling_of(op.operands[0]) != types.spelling_of(op.results[0]):
        return f"keeps the element type {types.spelling_of(op.operands[0])}, got {types.spelling_of(op.results[0])}"
    expected, actual = kept_shape(op), list(types.shape_of(op.results[0]))
    return None if expected == actual else f"reduces to {expected}, but the result is {actual}"


def _run(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    dims = ints(op.attributes["dims"])
    if not dims:
        return operands[0]
    row = BY_NAME[op.name.removeprefix("cuesta.")]
    result: torch.Tensor = row.reference(operands[0], dims, bool(op.attributes["keepdim"].value))
    return result


def _define(row: Reduction) -> type:
    annotations = {"x": ext.Operand[Any], "dims": ir.ArrayAttr, "keepdim": ir.IntegerAttr, "result": ext.Result[Any]}
    namespace = {"__annotations__": annotations, "__doc__": f"`{row.name}` over `dims`."}
    VERIFIERS[f"cuesta.{row.name}"] = _verify
    REFERENCES[f"cuesta.{row.name}"] = _run
    return type(row.name, (Operation,), namespace, name=row.name, traits=[ext.Pure])


OPS: dict[str, type] = {row.name: _define(row) for row in ROWS}


class ArgMax(Operation, name="argmax", traits=[ext.Pure]):
    """Index (i64) of the first largest element along `dim`; a NaN counts as largest. `dim` is removed."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class ArgMin(Operation, name="argmin", traits=[ext.Pure]):
    """Index (i64) of the first smallest element along `dim`; a NaN counts as smallest. `dim` is removed."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


def _ordered(x: torch.Tensor) -> torch.Tensor:
    # Torch's argmax refuses bool. Torch's max along a dim accepts bool, and becomes this op too.
    return x.byte() if x.dtype == torch.bool else x


@reference("argmax")
def _argmax(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.argmax(_ordered(operands[0]), op.attributes["dim"].value)


@reference("argmin")
def _argmin(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.argmin(_ordered(operands[0]), op.attributes["dim"].value)


@verifier("argmax")
@verifier("argmin")
def _verify_arg(op: ir.Operation) -> str | None:
    shape, dim = list(types.shape_of(op.operands[0])), op.attributes["dim"].value
    if not 0 <= dim < len(shape):
        return f"dim {dim} is outside [0, {len(shape)})"
    if types.spelling_of(op.results[0]) != "i64":
        return f"gives positions as i64, not {types.spelling_of(op.results[0])}"
    expected, actual = shape[:dim] + shape[dim + 1 :], list(types.shape_of(op.results[0]))
    return None if expected == actual else f"reduces to {expected}, but the result is {actual}"


class CumSum(Operation, name="cumsum", traits=[ext.Pure]):
    """Running sum along `dim`."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class CumProd(Operation, name="cumprod", traits=[ext.Pure]):
    """Running product along `dim`."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class LogCumSumExp(Operation, name="logcumsumexp", traits=[ext.Pure]):
    """Logarithm of the running sum of exponentials along `dim`, of floats."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class CumMax(Operation, name="cummax", traits=[ext.Pure]):
    """The largest element so far along `dim`; NaN from the first NaN on."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


class CumMin(Operation, name="cummin", traits=[ext.Pure]):
    """The smallest element so far along `dim`; NaN from the first NaN on."""

    x: ext.Operand[Any]
    dim: ir.IntegerAttr
    result: ext.Result[Any]


@reference("cumsum")
def _cumsum(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cumsum(operands[0], op.attributes["dim"].value, dtype=operands[0].dtype)


@reference("cumprod")
def _cumprod(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cumprod(operands[0], op.attributes["dim"].value, dtype=operands[0].dtype)


@reference("logcumsumexp")
def _logcumsumexp(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.logcumsumexp(operands[0], op.attributes["dim"].value)


@reference("cummax")
def _cummax(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cummax(operands[0], op.attributes["dim"].value).values


@reference("cummin")
def _cummin(op: ir.Operation, operands: list[torch.Tensor]) -> torch.Tensor:
    return torch.cummin(operands[0], op.attributes["dim"].value).values


@verifier("cumsum")
@verifier("logcumsumexp")
@verifier("cumprod")
@verifier("cummax")
@verifier("cummin")
def _verify_running(op: ir.Operation) -> str | None:
    shape, dim = types.shape_of(op.operands[0]), op.attributes["dim"].value
    if not 0 <= dim < len(shape):
        return f"dim {dim} is outside [0, {len(shape)})"
    return None if types.shape_of(op.results[0]) == shape else "the result must have the operand's shape"
