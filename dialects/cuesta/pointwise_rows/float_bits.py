"""Rows that work on the bits of floats: significands, exponents, and the next number."""

import math as pymath
from typing import NamedTuple, TypeAlias

import torch

from cuesta._mlir import arith, ir
from cuesta.dialects.cuesta.pointwise_rows.row import Pointwise
from cuesta.dialects.scalar import Scalar

Value: TypeAlias = ir.Value


class _Format(NamedTuple):
    """The bit layout of a float."""

    bits: ir.Type
    #: stored bits of the significand
    fraction: int
    #: the stored exponent of numbers from 1/2 to 1
    half: int


def _format(x: Value) -> _Format:
    wide = x.type.width == 64
    return _Format(ir.IntegerType.get_signless(x.type.width), *((52, 1022) if wide else (23, 126)))


def _taken_apart(s: Scalar, x: Value) -> tuple[Value, Value]:
    """(m, e) with x = m · 2^e, where |m| is from 1/2 to 1, for an x that is finite and not 0."""
    kind = _format(x)
    tiny = s.compare("lt", s.abs(x), s.const(x, 2.0 ** (1 - kind.half)))  # denormals have no exponent of their own
    bits = arith.bitcast(kind.bits, s.select(tiny, s.mul(x, s.const(x, 2.0**kind.fraction)), x))
    ones = (1 << (kind.bits.width - 1 - kind.fraction)) - 1
    stored = arith.andi(arith.shrui(bits, s.const(bits, kind.fraction)), s.const(bits, ones))
    moved = s.select(tiny, s.const(bits, kind.half + kind.fraction), s.const(bits, kind.half))
    rest = arith.andi(bits, s.const(bits, ~(ones << kind.fraction)))
    halves = arith.ori(rest, s.const(bits, kind.half << kind.fraction))
    return arith.bitcast(x.type, halves), s.sub(stored, moved)


def _has_exponent(s: Scalar, x: Value) -> Value:
    """Whether x is neither 0 nor infinite nor NaN."""
    return arith.andi(s.compare("gt", s.abs(x), s.const(x, 0)), s.compare("lt", s.abs(x), s.const(x, pymath.inf)))


def _mantissa(s: Scalar, x: Value) -> Value:
    return s.select(_has_exponent(s, x), _taken_apart(s, x)[0], x)


def _exponent(s: Scalar, x: Value) -> Value:
    exponent = arith.sitofp(x.type, _taken_apart(s, x)[1])
    return s.select(_has_exponent(s, x), exponent, s.const(x, 0))


def _nextafter(s: Scalar, x: Value, y: Value) -> Value:
    """The number next to x towards y: its bits, read as an integer, are those of x plus or minus 1. bf16 is computed in
    f32, where its bits are the upper half."""
    kind = _format(x)
    bits, one = arith.bitcast(kind.bits, x), s.const(kind.bits, 1 << 16 if s.spelling == "bf16" else 1)
    away = arith.xori(s.compare("gt", y, x), s.compare("lt", x, s.const(x, 0)))
    beside = arith.bitcast(x.type, s.select(away, s.add(bits, one), s.sub(bits, one)))
    sign = arith.andi(arith.bitcast(kind.bits, y), s.const(kind.bits, 1 << (kind.bits.width - 1)))
    beside = s.select(s.compare("eq", x, s.const(x, 0)), arith.bitcast(x.type, arith.ori(sign, one)), beside)
    beside = s.select(s.compare("eq", x, y), y, beside)
    return s.select(arith.ori(s.is_nan(x), s.is_nan(y)), s.const(x, pymath.nan), beside)


ROWS: tuple[Pointwise, ...] = (
    Pointwise("frexp_mantissa", 1, _mantissa, lambda x: torch.frexp(x).mantissa, "float", cost=10),
    Pointwise("frexp_exponent", 1, _exponent, lambda x: torch.frexp(x).exponent.to(x.dtype), "float", cost=10),
    Pointwise("nextafter", 2, _nextafter, torch.nextafter, "float", cost=10),
)
