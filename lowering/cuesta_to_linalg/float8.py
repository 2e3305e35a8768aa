"""Converts floats of 8 bits, which are stored as bytes, to f32 and back, by integer ops on their bits.

    f8E5M2      s eeeee mm      the upper half of an f16
    f8E4M3FN    s eeee mmm      its fields in those of an f16 give 2^-8 of its value: the exponents' biases are 7 and 15

An f16 has subnormal numbers too, so those of both formats are widened like all others. The NaN of an f8E4M3FN has all
bits but the sign set, and the format has no infinity (Micikevicius et al. 2022, https://arxiv.org/abs/2209.05433).
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from cuesta._mlir import arith, ir
from cuesta.dialects.scalar import Scalar, Value
from cuesta.runtime.dtypes import DTYPES


@dataclass(frozen=True)
class _Format:
    """A format of floats of 8 bits."""

    fraction: int
    """Bits of the fraction."""
    bias: int
    """The exponent's bias."""
    limit: float
    """What the bits behind the largest number's would stand for, were they neither NaN nor infinity."""


_FORMATS = {"f8E4M3FN": _Format(3, 7, 480.0), "f8E5M2": _Format(2, 15, 65536.0)}
_NAN = 0x7F


@functools.cache
def _beyond(spelling: str) -> int:
    """The byte to which torch converts a number beyond the format's largest: infinity, if the format has one; else the
    largest number, or NaN in torch before 2.13."""
    return int(torch.tensor(math.inf).to(DTYPES[spelling]).view(torch.uint8))


def widen_float8(s: Scalar, stored: Value, spelling: str) -> Value:
    """The f32 that a stored byte of type `spelling` stands for."""
    half, f16, f32 = ir.IntegerType.get_signless(16), ir.F16Type.get(), ir.F32Type.get()
    if spelling == "f8E5M2":
        bits = arith.shli(arith.extui(half, stored), s.const(half, 8))
        return arith.extf(f32, arith.bitcast(f16, bits))
    # After the shift, bits 14 and 15 are the sign. An f16 has its sign in bit 15 only.
    moved = arith.shli(arith.extsi(half, stored), s.const(half, 7))
    bits = arith.andi(moved, s.const(half, 0xBFFF))
    value = arith.mulf(arith.extf(f32, arith.bitcast(f16, bits)), s.const(f32, 256.0))
    magnitude = arith.andi(stored, s.const(stored, 0x7F))
    return s.select(s.compare("eq", magnitude, s.const(stored, _NAN)), s.const(f32, math.nan), value)


def narrow_float8(s: Scalar, x: Value, spelling: str) -> Value:
    """The byte of type `spelling` that an f32 is rounded to, ties to even."""
    kind, f32, i32, i8 = _FORMATS[spelling], x.type, ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(8)
    magnitude = s.abs(x)
    bits = arith.bitcast(i32, magnitude)
    cut = 23 - kind.fraction
    odd = arith.andi(arith.shrui(bits, s.const(i32, cut)), s.const(i32, 1))
    half = s.const(i32, (kind.bias - 127 << 23) + (1 << cut - 1) - 1)
    normal = arith.shrui(s.add(s.add(bits, half), odd), s.const(i32, cut))
    # Addition rounds a subnormal result: the last bit of the other summand is worth the least subnormal number.
    last = 2.0 ** (1 - kind.bias - kind.fraction + 23)
    tiny = s.sub(arith.bitcast(i32, s.add(magnitude, s.const(f32, last))), arith.bitcast(i32, s.const(f32, last)))
    rounded = s.select(s.compare("lt", magnitude, s.const(f32, 2.0 ** (1 - kind.bias))), tiny, normal)
    beyond = s.const(i32, _beyond(spelling))
    rounded = s.select(s.compare("lt", magnitude, s.const(f32, kind.limit)), s.minimum(rounded, beyond), beyond)
    rounded = s.select(s.compare("ne", x, x), s.const(i32, _NAN), rounded)
    sign = arith.shrui(arith.bitcast(i32, x), s.const(i32, 31))
    return arith.trunci(i8, arith.ori(rounded, arith.shli(sign, s.const(i32, 7))))
