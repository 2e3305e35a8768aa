"""Builds arith and math ops on scalars or vectors tersely: Python numbers become constants of the other operand's type.

Every op maps to one LLVM instruction, or to one intrinsic that LLVM's loop vectoriser widens. No op has fastmath flags:
the emitters' roundings by magic numbers and their split constants depend on exact evaluation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from cuesta._mlir import arith, ir, math, vector

Value: TypeAlias = ir.Value
Operand: TypeAlias = ir.Value | float | int
T = TypeVar("T")

_LESS = arith.CmpFPredicate.OLT
_EQUAL = arith.CmpFPredicate.OEQ
_UNORDERED = arith.CmpFPredicate.UNO


@dataclass(frozen=True)
class ByWidth(Generic[T]):
    """A pair of values for f32 and for f64, such as constants or coefficients."""

    narrow: T
    wide: T

    def of(self, x: Value) -> T:
        return self.wide if element_of(x.type) == ir.F64Type.get() else self.narrow


class Builder:
    """Builds ops at the current insertion point. Holds the types of one context."""

    def __init__(self) -> None:
        self.f16 = ir.F16Type.get()
        self.bf16 = ir.BF16Type.get()
        self.f32 = ir.F32Type.get()
        self.f64 = ir.F64Type.get()
        self.i1 = ir.IntegerType.get_signless(1)
        self.i16 = ir.IntegerType.get_signless(16)
        self.i32 = ir.IntegerType.get_signless(32)
        self.i64 = ir.IntegerType.get_signless(64)
        self._bits_of = {self.f16: self.i16, self.f32: self.i32, self.f64: self.i64}
        self._float_of = {bits: kind for kind, bits in self._bits_of.items()}

    # -- constants ---------------------------------------------------------------------------
    def const(self, value: float | int, kind: ir.Type) -> Value:
        """A constant of type `kind`; in a vector, each element is `value`. Integers are taken modulo the width, so that
        bit masks can be written unsigned."""
        if isinstance(kind, ir.VectorType):
            one = self.const(value, kind.element_type).owner.attributes["value"]
            return arith.ConstantOp(kind, ir.DenseElementsAttr.get_splat(kind, one)).result
        if kind in self._bits_of:
            return arith.ConstantOp(kind, ir.FloatAttr.get(kind, float(value))).result
        width = kind.width
        wrapped = (int(value) + (1 << (width - 1))) % (1 << width) - (1 << (width - 1))
        return arith.ConstantOp(kind, ir.IntegerAttr.get(kind, wrapped)).result

    def _same(self, *operands: Operand) -> list[Value]:
        kind = next(v.type for v in operands if isinstance(v, ir.Value))
        return [v if isinstance(v, ir.Value) else self.const(v, kind) for v in operands]

    # -- floating point ----------------------------------------------------------------------
    def add(self, a: Operand, b: Operand) -> Value:
        return arith.AddFOp(*self._same(a, b)).result

    def sub(self, a: Operand, b: Operand) -> Value:
        return arith.SubFOp(*self._same(a, b)).result

    def mul(self, a: Operand, b: Operand) -> Value:
        return arith.MulFOp(*self._same(a, b)).result

    def div(self, a: Operand, b: Operand) -> Value:
        return arith.DivFOp(*self._same(a, b)).result

    def fma(self, a: Operand, b: Operand, c: Operand) -> Value:
        """a * b + c with one rounding."""
        return math.FmaOp(*self._same(a, b, c)).result

    def neg(self, a: Value) -> Value:
        return arith.NegFOp(a).result

    def abs(self, a: Value) -> Value:
        return math.AbsFOp(a).result

    def sqrt(self, a: Value) -> Value:
        return math.SqrtOp(a).result

    def trunc(self, a: Value) -> Value:
        return math.TruncOp(a).result

    def round(self, a: Value) -> Value:
        """Rounds to the nearest whole number, ties to even."""
        return math.RoundEvenOp(a).result

    def copysign(self, magnitude: Operand, sign: Value) -> Value:
        return math.CopySignOp(*self._same(magnitude, sign)).result

    def poly(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        """A polynomial by Horner's rule. Coefficients go from the highest power down to the constant."""
        acc: Operand = coefficients[0]
        for c in coefficients[1:]:
            acc = self.fma(x, acc, c)
        assert isinstance(acc, ir.Value)
        return acc

    def balanced_poly(self, x: Value, coefficients: tuple[float, ...]) -> Value:
        """A polynomial by Estrin's scheme, for so many coefficients that Horner's chain of FMAs would stall the loop.

        Coefficients as in `poly`.
        """
        powers = [x]
        while 2 ** len(powers) < len(coefficients):
            powers.append(self.mul(powers[-1], powers[-1]))

        def build(part: tuple[float, ...]) -> Operand:
            if len(part) == 1:
                return part[0]
            level = (len(part) - 1).bit_length() - 1
            return self.fma(powers[level], build(part[: -(2**level)]), build(part[-(2**level) :]))

        value = build(coefficients)
        assert isinstance(value, ir.Value)
        return value

    # -- choice ------------------------------------------------------------------------------
    def less(self, a: Operand, b: Operand) -> Value:
        """a < b; false where either is NaN."""
        return arith.CmpFOp(_LESS, *self._same(a, b)).result

    def equal(self, a: Operand, b: Operand) -> Value:
        """a == b; false where either is NaN."""
        return arith.CmpFOp(_EQUAL, *self._same(a, b)).result

    def unordered(self, a: Operand, b: Operand) -> Value:
        """Whether either is NaN."""
        return arith.CmpFOp(_UNORDERED, *self._same(a, b)).result

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        return arith.SelectOp(condition, *self._same(a, b)).result

    def any(self, condition: Value) -> Value:
        """Whether any element of a vector of conditions holds; a scalar condition is returned as it is."""
        if not isinstance(condition.type, ir.VectorType):
            return condition
        return vector.reduction(self.i1, vector.CombiningKind.OR, condition)

    def is_odd(self, a: Value) -> Value:
        """Whether the lowest bit of an integer is set."""
        return arith.TruncIOp(_shaped(self.i1, a), a).result

    def invert(self, condition: Value) -> Value:
        return arith.XOrIOp(condition, self.const(1, condition.type)).result

    def at_most(self, x: Value, limit: float) -> Value:
        """min(x, limit), or NaN if x is NaN; exactly x86's minps, unlike arith.minimumf."""
        bound = self.const(limit, x.type)
        return self.select(self.less(bound, x), bound, x)

    def at_least(self, x: Value, limit: float) -> Value:
        """max(x, limit), or NaN if x is NaN; exactly x86's maxps."""
        bound = self.const(limit, x.type)
        return self.select(self.less(x, bound), bound, x)

    # -- bits --------------------------------------------------------------------------------
    def bits(self, a: Value) -> Value:
        return arith.BitcastOp(_shaped(self._bits_of[element_of(a.type)], a), a).result

    def from_bits(self, a: Value) -> Value:
        return arith.BitcastOp(_shaped(self._float_of[element_of(a.type)], a), a).result

    def iadd(self, a: Operand, b: Operand) -> Value:
        return arith.AddIOp(*self._same(a, b)).result

    def isub(self, a: Operand, b: Operand) -> Value:
        return arith.SubIOp(*self._same(a, b)).result

    def imax(self, a: Operand, b: Operand) -> Value:
        return arith.MaxSIOp(*self._same(a, b)).result

    def both(self, a: Operand, b: Operand) -> Value:
        """Bitwise and; of two conditions, logical and."""
        return arith.AndIOp(*self._same(a, b)).result

    def either(self, a: Operand, b: Operand) -> Value:
        """Bitwise or; of two conditions, logical or."""
        return arith.OrIOp(*self._same(a, b)).result

    def xor(self, a: Operand, b: Operand) -> Value:
        return arith.XOrIOp(*self._same(a, b)).result

    def shift_left(self, a: Value, count: int) -> Value:
        return arith.ShLIOp(*self._same(a, count)).result

    def shift_right_unsigned(self, a: Value, count: int) -> Value:
        return arith.ShRUIOp(*self._same(a, count)).result

    # -- conversion --------------------------------------------------------------------------
    def to_float(self, a: Value) -> Value:
        """A signed i32 as f32."""
        return arith.SIToFPOp(_shaped(self.f32, a), a).result

    def widen(self, a: Value) -> Value:
        """f32 to f64."""
        return arith.ExtFOp(_shaped(self.f64, a), a).result

    def extend(self, a: Value) -> Value:
        """f16 or bf16 to f32."""
        return arith.ExtFOp(_shaped(self.f32, a), a).result

    def narrow(self, a: Value) -> Value:
        """f64 to f32."""
        return arith.TruncFOp(_shaped(self.f32, a), a).result

    def low_word(self, a: Value) -> Value:
        """The low 32 bits of an i64."""
        return arith.TruncIOp(_shaped(self.i32, a), a).result


def element_of(kind: ir.Type) -> ir.Type:
    """The element type of a vector type; any other type itself."""
    return kind.element_type if isinstance(kind, ir.VectorType) else kind


def _shaped(kind: ir.Type, like: Value) -> ir.Type:
    """`kind`, or a vector of `kind` with the shape of `like` if that is a vector."""
    return ir.VectorType.get(like.type.shape, kind) if isinstance(like.type, ir.VectorType) else kind
