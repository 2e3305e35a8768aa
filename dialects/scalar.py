"""Builds scalar arithmetic by meaning: `add` of two floats is arith.addf, of two integers arith.addi.

The rows of the pointwise and reduction tables use this module. Every function builds at the current insertion point
and takes operands of one type.
"""

from __future__ import annotations

import math as pymath
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from cuesta._mlir import arith, ir, math, scf
from cuesta.dialects import types
from cuesta.sizes import Size

Value: TypeAlias = ir.Value

_FLOAT_PREDICATE = {
    "eq": arith.CmpFPredicate.OEQ,
    "ne": arith.CmpFPredicate.UNE,
    "lt": arith.CmpFPredicate.OLT,
    "le": arith.CmpFPredicate.OLE,
    "gt": arith.CmpFPredicate.OGT,
    "ge": arith.CmpFPredicate.OGE,
}
_INT_PREDICATE = {
    "eq": arith.CmpIPredicate.eq,
    "ne": arith.CmpIPredicate.ne,
    "lt": arith.CmpIPredicate.slt,
    "le": arith.CmpIPredicate.sle,
    "gt": arith.CmpIPredicate.sgt,
    "ge": arith.CmpIPredicate.sge,
}
_UINT_PREDICATE = _INT_PREDICATE | {
    "lt": arith.CmpIPredicate.ult,
    "le": arith.CmpIPredicate.ule,
    "gt": arith.CmpIPredicate.ugt,
    "ge": arith.CmpIPredicate.uge,
}


def _floating(value: Value) -> bool:
    return isinstance(value.type, ir.FloatType)


@dataclass(frozen=True)
class Scalar:
    """Builds scalar ops. `unsigned`: whether integers are unsigned (bool counts as unsigned). `spelling`: the cuesta
    dialect's type of the operands, which are computed in a wider type if it is narrow."""

    unsigned: bool = False
    spelling: str = ""

    # -- constants and conversion -------------------------------------------------------------
    def const(self, like: Value | ir.Type, number: float | Size) -> Value:
        """`number` in the type of `like`."""
        kind = like if isinstance(like, ir.Type) else like.type
        if isinstance(number, Size):
            whole = arith.index_cast(ir.IntegerType.get_signless(64), types.size_value(number))
            return self.convert(whole, kind)
        if isinstance(kind, ir.FloatType):
            return arith.ConstantOp(kind, ir.FloatAttr.get(kind, float(number))).result
        # Every number but 0 is True.
        whole = int(number != 0) if kind.width == 1 else int(number)
        return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, _wrap(whole, kind))).result

    def convert(self, x: Value, target: ir.Type, *, target_is_bool: bool = False) -> Value:
        """`x` in type `target`, as torch's `.to(dtype)` converts it."""
        source = x.type
        if source == target:
            return x
        if target_is_bool or (isinstance(target, ir.IntegerType) and target.width == 1):
            return self.compare("ne", x, self.const(x, 0))
        if _floating(x) and isinstance(target, ir.FloatType):
            if source.width == target.width:  # bf16 ↔ f16 pass through f32
                return arith.truncf(target, arith.extf(ir.F32Type.get(), x))
            if source.width == 64 and target.width == 16:  # via f32 too: torch rounds twice, and LLVM has no other way
                return arith.truncf(target, arith.truncf(ir.F32Type.get(), x))
            return arith.extf(target, x) if source.width < target.width else arith.truncf(target, x)
        if _floating(x):
            return self._float_to_int(x, target)
        if isinstance(target, ir.FloatType):
            if target.width == 16:
                return arith.truncf(target, self.convert(x, ir.F32Type.get()))
            return arith.uitofp(target, x) if self.unsigned else arith.sitofp(target, x)
        if source.width < target.width:
            return arith.extui(target, x) if self.unsigned else arith.extsi(target, x)
        return arith.trunci(target, x)

    def _float_to_int(self, x: Value, target: ir.Type) -> Value:
        # Narrow integers are converted through i32, as in ATen: it determines the result for floats beyond i32.
        wide = ir.IntegerType.get_signless(max(target.width, 32))
        whole = arith.fptosi(wide, x)
        return whole if wide == target else arith.trunci(target, whole)

    # -- arithmetic ---------------------------------------------------------------------------
    def add(self, x: Value, y: Value) -> Value:
        """The sum; for two bools, whether either is true."""
        if types.spelled(x.type) == "i1":
            return arith.ori(x, y)
        return arith.addf(x, y) if _floating(x) else arith.addi(x, y)

    def sub(self, x: Value, y: Value) -> Value:
        return arith.subf(x, y) if _floating(x) else arith.subi(x, y)

    def mul(self, x: Value, y: Value) -> Value:
        return arith.mulf(x, y) if _floating(x) else arith.muli(x, y)

    def div(self, x: Value, y: Value) -> Value:
        """True division of floats."""
        return arith.divf(x, y)

    def neg(self, x: Value) -> Value:
        return arith.negf(x) if _floating(x) else arith.subi(self.const(x, 0), x)

    def abs(self, x: Value) -> Value:
        if _floating(x):
            return math.absf(x)
        return x if self.unsigned else math.absi(x)

    def maximum(self, x: Value, y: Value) -> Value:
        """The larger; NaN where either is NaN."""
        if _floating(x):
            return arith.maximumf(x, y)
        return arith.maxui(x, y) if self.unsigned else arith.maxsi(x, y)

    def minimum(self, x: Value, y: Value) -> Value:
        """The smaller; NaN where either is NaN."""
        if _floating(x):
            return arith.minimumf(x, y)
        return arith.minui(x, y) if self.unsigned else arith.minsi(x, y)

    # -- comparison and choice ----------------------------------------------------------------
    def compare(self, predicate: str, x: Value, y: Value) -> Value:
        """i1 of `x predicate y`; predicate is eq, ne, lt, le, gt or ge."""
        if _floating(x):
            return arith.cmpf(_FLOAT_PREDICATE[predicate], x, y)
        return arith.cmpi((_UINT_PREDICATE if self.unsigned else _INT_PREDICATE)[predicate], x, y)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        return arith.select(condition, x, y)

    def is_nan(self, x: Value) -> Value:
        return arith.cmpf(arith.CmpFPredicate.UNO, x, x)

    def repeat(
        self,
        condition: Callable[..., Value],
        step: Callable[..., Sequence[Value]],
        *first: Value,
    ) -> list[Value]:
        """A while loop: starts with the values `first`, and applies `step` to them while `condition` of them holds."""
        kinds = [x.type for x in first]
        loop = scf.WhileOp(kinds, list(first))
        before, after = (region.blocks.append(*kinds) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            scf.ConditionOp(condition(*before.arguments), list(before.arguments))
        with ir.InsertionPoint(after):
            scf.YieldOp(step(*after.arguments))
        return list(loop.results)

    def branch(self, condition: Value, x: Callable[[], Value], y: Value) -> Value:
        """`condition ? x() : y` as a branch, for an x that is too expensive to compute where it is not needed."""
        chosen = scf.IfOp(condition, [y.type], has_else=True)
        with ir.InsertionPoint(chosen.then_block):
            scf.YieldOp([x()])
        with ir.InsertionPoint(chosen.else_block):
            scf.YieldOp([y])
        return chosen.results[0]

    # -- compositions that several rows share -------------------------------------------------
    def sigmoid(self, x: Value) -> Value:
        one = self.const(x, 1)
        return self.div(one, self.add(one, math.exp(self.neg(x))))

    def polynomial_tanh_argument(self, x: Value) -> Value:
        """sqrt(2/π)·(x + 0.044715·x³), the inner part of gelu's tanh form."""
        cube = self.mul(self.mul(x, x), x)
        return self.mul(self.const(x, pymath.sqrt(2 / pymath.pi)), self.add(x, self.mul(self.const(x, 0.044715), cube)))


def scalar_for(spelling: str) -> Scalar:
    """The builder for values of the cuesta dialect's type `spelling`."""
    return Scalar(spelling.startswith("ui") or spelling == "i1", spelling)


def _wrap(number: int, kind: ir.Type) -> int:
    """`number` as a signed integer of the width of `kind`, as two's complement stores it."""
    width = ir.IntegerType(kind).width
    number &= (1 << width) - 1
    return number - (1 << width) if width > 1 and number >> (width - 1) else number


def load_storage(value: Value, spelling: str) -> Value:
    """Converts a value from its storage type to the type that kernels compute on (a bool is stored as a byte)."""
    if spelling == "i1" and types.spelled(value.type) == "i8":
        return arith.cmpi(arith.CmpIPredicate.ne, value, Scalar().const(value, 0))
    return value


def to_storage(value: Value, spelling: str) -> Value:
    """The inverse of `load_storage`."""
    if spelling == "i1" and types.spelled(value.type) == "i1":
        return arith.extui(types.element("i8"), value)
    return value
